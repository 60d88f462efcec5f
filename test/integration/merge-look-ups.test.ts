import { afterAll, describe, expect, it } from 'vitest';
import type { Pool } from 'pg';
import { createDatabases } from '../support/databases.ts';
import { batchOf, createStore, logRows, noAbort } from '../support/store.ts';
import type { StoreUnderTest, TestRow } from '../support/store.ts';

const ddl = `
  create table public.places (k text primary key, v text);
  create table public.prices (k text not null, f integer not null, t integer not null, v text, primary key (k, f));
  create table public.moves (k text not null, f integer not null, t integer not null, v text, primary key (k, f))`;

const declarations = [
  { name: 'places', kind: 'facts', key: ['k'] },
  { name: 'prices', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'override' } },
  { name: 'moves', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'until_next' } },
] as const;

const stores: StoreUnderTest[] = [];
afterAll(() => Promise.all(stores.map(({ pool }) => pool.end())));

describe.each(declarations)('a merge of few rows into a large table: $name', ({ name }) => {
  it.each(['upsert', 'retract'])(
    'looks up their keys alone, with a plan from when it was empty (%s)',
    async (op) => {
      const { storeUrl } = await createDatabases(`look-ups ${name} ${op}`);
      // one session, whose plans are kept, because no statistics are taken meanwhile
      const store = await createStore(storeUrl, ddl, declarations, { connections: 1 });
      stores.push(store);
      for (const table of [`public.${name}`, `emend.${name}_tombstone`, 'emend.ledger_recent'])
        await store.pool.query(`alter table ${table} set (autovacuum_enabled = false)`);
      // now the planner knows that the tables are empty
      await store.pool.query('vacuum (analyze)');
      let id = 0;
      const merge = async (count: number, again: { k?: string; f?: number; _op?: string } = {}) => {
        const rows = Array.from({ length: count }, (): TestRow => {
          id += 1;
          const values = op === 'upsert' || again._op ? { v: 'x' } : {};
          return {
            _id: id,
            _op: op,
            k: `k${id}`,
            f: 1,
            t: name === 'prices' ? 9 : null,
            ...values,
            ...again,
          };
        });
        const target = store.targets.find((candidate) => candidate.name === name)!;
        await store.handle(batchOf(logRows(target, rows)), noAbort);
      };

      for (let turn = 0; turn < 10; turn += 1) await merge(1);
      for (let turn = 0; turn < 3; turn += 1) await merge(1000);
      const before = await rowsRead(store.pool);
      await merge(1);
      const read = (await rowsRead(store.pool)) - before;

      expect(before).toBeGreaterThan(0);
      expect(read).toBeLessThan(100);

      // what stands of a key is found by its place: shortened, then replaced whole
      await merge(1, { k: 'k7', _op: 'upsert' });
      await merge(1, { k: 'k7', f: 5 });
      await merge(1, { k: 'k7' });
      expect((await rowsRead(store.pool)) - before).toBeLessThan(400);
    },
  );
});

it('a merge beside a fence looks for its own keys among those of the fence, with a plan from when one was gone', async () => {
  const { storeUrl } = await createDatabases('look-ups fence');
  const store = await createStore(storeUrl, ddl, declarations, { connections: 1 });
  stores.push(store);
  await store.pool.query('alter table emend.fence set (autovacuum_enabled = false)');
  const fence = `insert into emend.fence (target, key_hash, holder) select 'places', n, 'a backfill' from generate_series(1, 50000) n`;
  await store.pool.query(fence);
  await store.pool.query('delete from emend.fence');
  // now the planner knows that there are pages, and no row in them
  await store.pool.query('analyze');
  await store.pool.query(fence);
  await store.pool.query(`insert into emend.fence_of (target, holder) values ('places', 'a backfill')`);
  const [target] = store.targets;
  const before = await rowsRead(store.pool);
  await store.handle(batchOf(logRows(target!, [{ _id: 1, _op: 'upsert', k: 'k1', v: 'x' }])), noAbort);
  expect((await rowsRead(store.pool)) - before).toBeLessThan(100);
});

/** Entries and rows that statements of this session have read from tables of the target and from the ledger. */
async function rowsRead(pool: Pool): Promise<number> {
  await pool.query('select pg_stat_force_next_flush()');
  const { rows } = await pool.query<{ read: string }>(
    `select (
       (select sum(idx_tup_read) from pg_stat_user_indexes where relname not in ('clock', 'target'))
       + (select sum(seq_tup_read) from pg_stat_user_tables where relname not in ('clock', 'target')))::text as read`,
  );
  return Number(rows[0]!.read);
}
