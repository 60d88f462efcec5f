import fc from 'fast-check';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BackfillWork } from '../../src/backfill/carry-out.ts';
import { pendingMigrations } from '../../src/db/migrations.ts';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { mergeSettings } from '../../src/merge/merge.ts';
import { prepareTargets } from '../../src/merge/prepared-target.ts';
import { createDatabases } from '../support/databases.ts';
import { apply, migrateLog } from '../support/source.ts';
import { createStore } from '../support/store.ts';
import { backfillPrograms, kinds } from './backfill-programs.ts';
import type { BackfillLaws } from './expect-backfills.ts';
import { runBackfills } from './run-backfills.ts';

/** Seconds: EMEND_LAWS_SECONDS, 30 by default. EMEND_LAWS_SEED repeats a run. */
const seconds = Number(process.env.EMEND_LAWS_SECONDS ?? 30);
const seed = Number(process.env.EMEND_LAWS_SEED ?? Math.floor(Math.random() * 2 ** 31));

const ddl = `
  create table public.orders (k text primary key, v text, ver integer not null);
  create table public.prices (k text not null, f date not null, t date not null, v text);
  create table public.rates (k text not null, f timestamptz not null, t timestamptz not null, v text, ver integer not null);
  create table public.moves (k text not null, f date not null, t date not null, v text)`;

describe('backfills', () => {
  let laws: BackfillLaws;
  const pools: Pool[] = [];

  beforeAll(async () => {
    const { sourceUrl, storeUrl } = await createDatabases('laws backfill');
    const store = await createStore(storeUrl, ddl, [
      { name: 'orders', kind: 'facts', key: ['k'], version: 'ver' },
      { name: 'prices', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'override' } },
      { name: 'rates', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'override' }, version: 'ver' },
      { name: 'moves', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'until_next' } },
    ]); // prettier-ignore
    const source = open(sourceUrl);
    pools.push(store.pool);
    await withClient(source, async (client) => apply(client, await pendingMigrations(client, 'source')));
    for (const target of store.targets) await migrateLog({ source, store: store.pool }, target);
    // programs number their rows themselves, and are taken out of the logs again
    await source.query(`select setval('corrections._id', 1000000)`);
    for (const log of [...kinds, '_request'])
      await source.query(`alter table corrections.${log} disable trigger user`);
    const prepared = [...(await prepareTargets(store.pool, store.targets, '$1::timestamptz')).values()];
    const worker = (): BackfillWork => ({
      source: open(sourceUrl),
      store: open(storeUrl, mergeSettings),
      resolve: async (names) => prepared.filter(({ target }) => names.includes(target.name)),
    });
    laws = { source, store, workers: [worker(), worker()] };
  });
  afterAll(() => Promise.all(pools.map((pool) => pool.end())));

  function open(url: string, settings: Readonly<Record<string, string>> = {}): Pool {
    const pool = createPool({ url, applicationName: 'emend test', settings });
    pools.push(pool);
    return pool;
  }

  it(
    `staged, promoted, reverted and abandoned in any order, between live corrections, leave what the model says (seed ${seed})`,
    { timeout: seconds * 1000 + 90_000 },
    async () => {
      const came: Record<string, number> = {};
      let programs = 0;
      await fc.assert(
        fc.asyncProperty(backfillPrograms, async (program) => {
          for (const state of await runBackfills(laws, program)) came[state] = (came[state] ?? 0) + 1;
          programs += 1;
        }),
        {
          seed,
          numRuns: 1_000_000,
          interruptAfterTimeLimit: seconds * 1000,
          markInterruptAsFailure: false,
        },
      );
      expect(programs, 'programs that came to their end').toBeGreaterThan(0);
      // enough of them, and each end has come
      if (programs >= 50)
        expect(Object.keys(came)).toEqual(
          expect.arrayContaining(['open', 'checked', 'promoted', 'reverted', 'abandoned']),
        );
    },
  );
});
