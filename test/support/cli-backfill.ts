import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { timeline } from '../../src/config/define-config.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { createDatabases } from './databases.ts';
import type { Databases } from './databases.ts';
import { query } from './query.ts';
import { createCli } from './run-cli.ts';
import type { Cli } from './run-cli.ts';

/**
 * Backfills of a table of fares from the command line, and what these commands call. It makes the databases, with twenty
 * routes at a price of 100 in the log, before the tests of the describe in which it is called; nothing runs yet.
 */
export function setUpCliBackfills(databaseName: string) {
  // all filled before the first test
  const databases = {} as Databases;
  const cli = {} as Cli;
  const resolved = {} as ResolvedConfig;
  beforeAll(async () => {
    Object.assign(databases, await createDatabases(databaseName));
    await query(
      databases.storeUrl,
      `create table public.fares (route text not null, valid_from date not null, valid_to date not null, price numeric not null)`,
    );
    Object.assign(
      cli,
      createCli(config, {
        SOURCE_URL: databases.sourceUrl,
        STORE_URL: databases.storeUrl,
        REDIS_URL: databases.redisUrl,
      }),
    );
    Object.assign(
      resolved,
      resolveConfig(
        {
          source: { url: databases.sourceUrl },
          store: { url: databases.storeUrl },
          targets: {
            fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }),
          },
        },
        {},
      ),
    );
    await migrate({ config: resolved, print: false });
    await query(
      databases.sourceUrl,
      `insert into corrections.fares (route, valid_from, price) select 'R' || n, '2026-01-01', 100 from generate_series(1, 20) as n`,
    );
  });

  const backfill = (...args: string[]) => cli.run(['backfill', ...args]);
  const write = (name: string, text: string) => {
    writeFileSync(join(cli.dir, name), text);
    return name;
  };
  /** What there is on September 15th. */
  const prices = async () => {
    const rows = await query<{ price: string }>(
      databases.storeUrl,
      `select distinct price::text as price from emend.fares_at('2026-09-15') order by price`,
    );
    return rows.map((row) => row.price);
  };

  return { databases, cli, resolved, backfill, write, prices };
}

/** What opens a backfill of fares. */
export const opening = (over: object = {}) => ({
  name: 'b',
  targets: ['fares'],
  reason: 'why',
  logicVersion: 'v1',
  ...over,
});

const config = `
import { defineConfig, timeline } from 'emend'
export default defineConfig({
  targets: { fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }) },
})
`;
