import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { runBackfill } from '../../src/pipeline/run-backfill.ts';
import { createInstall } from './install.ts';
import type { Install } from './install.ts';

/**
 * Files that state a backfill: writes and runs them, each under a name of its own, and reads what came of it. It makes
 * an install that runs, with ten routes at a price of 100, and a folder before the tests of the describe in which it is
 * called.
 */
export function setUpBackfillFiles(databaseName: string) {
  // filled before the first test
  const install = {} as Install;
  let folder: string;
  beforeAll(async () => {
    Object.assign(install, await createInstall(databaseName, { ddl, targets }));
    folder = mkdtempSync(join(tmpdir(), 'emend-backfills-'));
    await install.start();
    await install.source.query(
      `insert into corrections.fares (route, valid_from, price) select 'R' || n, '2026-01-01', 100 from generate_series(1, 10) as n`,
    );
    await install.wait();
    return () => rmSync(folder, { recursive: true, force: true });
  });

  let count = 0;
  const inFolder = (name: string) => join(folder, name);
  const write = (name: string, text: string) => {
    writeFileSync(inFolder(name), text);
    return inFolder(name);
  };
  const fresh = (ending: string, text: string) => write(`b-${++count}.${ending}`, text);
  /** The name of the backfill whose file was written last. */
  const named = () => `b-${count}`;
  const run = (path: string, options: Parameters<typeof runBackfill>[2] = {}) =>
    runBackfill(install.config, path, { timeoutMs: 30_000, ...options });
  /** A module with these options beside the usual ones. */
  const ts = (body: string) =>
    fresh(
      'ts',
      `import { defineBackfill } from 'emend'\nexport default defineBackfill({ targets: ['fares'], reason: 'contract 17', logicVersion: 'v1', ${body} })\n`,
    );
  /** The price on September 15th. */
  const price = async (route: string) =>
    (await install.store.query(`select price from emend.fares_at('2026-09-15') where route = $1`, [route]))
      .rows[0]?.price as string;

  return { install, inFolder, write, fresh, named, run, ts, price };
}

/** A row as such a module writes it. */
export const september = (route: string, price: number) =>
  `{ route: '${route}', valid_from: '2026-09-01', valid_to: '2026-10-01', price: ${price} }`;

const { targets } = defineConfig({
  targets: {
    fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }),
    sales: facts('public.sales', { key: ['id'], eventTime: 'sold_at' }),
  },
});

const ddl = `
  create table public.fares (route text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.sales (id bigint not null, sold_at timestamptz not null, route text)`;
