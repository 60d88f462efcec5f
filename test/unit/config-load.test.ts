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
])('%s is one clear error', async (_case, file, text, code) => {
  if (text !== '') writeFileSync(join(cwd, 'emend.config.ts'), text);
  await expect(readConfig({ cwd, file, env })).rejects.toMatchObject({ code, remedy: expect.any(String) });
});
