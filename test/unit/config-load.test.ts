import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readConfig } from '../../src/config/config.ts';

const env = { SOURCE_URL: 'postgres://source/app', STORE_URL: 'postgres://store/analytics' };
const body = `{ targets: { prices: timeline('prices', { key: ['id'], period: ['valid_from', 'valid_to'] }) } }`;
let cwd: string;

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'emend-config-'));
});

afterEach(() => {
  rmSync(cwd, { recursive: true, force: true });
});

it.each(['ts', 'mts', 'js', 'mjs'])(
  'emend.config.%s is found, and its emend is the running one',
  async (extension) => {
    const typed = extension.endsWith('ts') ? ' satisfies object' : '';
    const text = `import { defineConfig, timeline } from 'emend'\nexport default defineConfig(${body}${typed})\n`;
    writeFileSync(join(cwd, `emend.config.${extension}`), text);
    const config = await readConfig({ cwd, file: null, env });
    expect(config.targets.map((target) => target.name)).toEqual(['prices']);
  },
);

it('a file that was named is taken, with what it imports beside it', async () => {
  writeFileSync(join(cwd, 'columns.ts'), `export const key: string[] = ['id']\n`);
  writeFileSync(
    join(cwd, 'other.ts'),
    `import { facts } from 'emend'\nimport { key } from './columns.ts'\nexport default { targets: { a: facts('a', { key }) } }\n`,
  );
  const config = await readConfig({ cwd, file: 'other.ts', env });
  expect(config.targets[0]?.key).toEqual(['id']);
});

it.each([
  ['no file at all', null, '', 'config_not_found'],
  ['a named file that is not there', 'gone.ts', '', 'config_not_found'],
  ['a file that throws', null, `throw new Error('no')`, 'config_invalid'],
  ['a file with a syntax error', null, `export default {`, 'config_invalid'],
  ['a file without a default export', null, `export const config = {}`, 'config_invalid'],
  ['an unknown import', null, `import 'emend-is-not-this'\nexport default {}`, 'config_invalid'],
  ['a default export that is null', null, `export default null`, 'config_invalid'],
  ['a folder', '.', '', 'config_not_found'],
])('%s is one clear error', async (_case, file, text, code) => {
  if (text !== '') writeFileSync(join(cwd, 'emend.config.ts'), text);
  await expect(readConfig({ cwd, file, env })).rejects.toMatchObject({ code, remedy: expect.any(String) });
});

it.each([
  ['export const config = {}', /emend\.config\.ts exports nothing by default$/],
  ['', /exports nothing by default$/],
  [`import './gone.ts'\nexport default {}`, /cannot be loaded: Cannot find module '\.\/gone\.ts'$/],
])('of a file with %j only what is wrong is said', async (text, message) => {
  writeFileSync(join(cwd, 'emend.config.ts'), `${text}\nexport {}`);
  await expect(readConfig({ cwd, file: null, env })).rejects.toMatchObject({
    message: expect.stringMatching(message),
    problems: [],
  });
});

it('a default export that is no object is the only problem that is told', async () => {
  writeFileSync(join(cwd, 'emend.config.ts'), 'export default null');
  await expect(readConfig({ cwd, file: null, env: {} })).rejects.toMatchObject({
    problems: [{ path: 'default export', problem: 'is null, not an object' }],
  });
});

it('module.exports is taken for the default export', async () => {
  const text = `module.exports = require('emend').defineConfig(${body.replace('timeline', `require('emend').timeline`)})`;
  writeFileSync(join(cwd, 'emend.config.js'), text);
  expect((await readConfig({ cwd, file: null, env })).targets[0]?.name).toBe('prices');
});
