import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import { takeKeys } from '../../src/merge/take-keys.ts';
import { createDatabases } from '../support/databases.ts';
import { createStore, logRows } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';

describe('locks of keys', () => {
  let store: StoreUnderTest;
  let keysAtMost: number;

  beforeAll(async () => {
    const { storeUrl } = await createDatabases('key locks');
    store = await createStore(
      storeUrl,
      `create table public.prices (product integer primary key, price numeric not null)`,
      [{ name: 'prices', kind: 'facts', key: ['product'] }],
      { connections: 30 },
    );
    const { rows } = await store.pool.query<{ keys: string }>(
      `select (current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int / 16)::text as keys`,
    );
    keysAtMost = Number(rows[0]!.keys);
  });
  afterAll(() => store?.pool.end());

  /** A transaction that is rolled back when the test has ended, at the latest. */
  async function begin(): Promise<PoolClient> {
    const client = await store.pool.connect();
    onTestFinished(async () => {
      await client.query('rollback');
      client.release();
    });
    await client.query(`begin; set local lock_timeout = '300ms'`);
    return client;
  }

  const take = (client: PoolClient, keys: readonly (number | string)[]) => {
    const [target] = store.targets as [(typeof store.targets)[0]];
    const rows = logRows(
      target,
      keys.map((product, at) => ({ _id: at + 1, product, price: 1 })),
    );
    return takeKeys(client, [{ target, number: 1, rows }]);
  };

  const from = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at);
  const waits = { code: '55P03' };

  it('of few keys: merges of other keys of the same buckets go on, those of one of the keys wait', async () => {
    const holder = await begin();
    await take(holder, from(1, keysAtMost));
    const other = await begin();
    await take(other, from(1_000_001, keysAtMost));
    const same = await begin();
    await expect(take(same, [5_000_000, keysAtMost])).rejects.toMatchObject(waits);
  });

  it('of many keys: merges of all keys of their buckets wait, many or few', async () => {
    const holder = await begin();
    await take(holder, from(1, keysAtMost + 1));
    await expect(take(await begin(), [2_000_000])).rejects.toMatchObject(waits);
    await expect(take(await begin(), from(3_000_000, keysAtMost + 1))).rejects.toMatchObject(waits);
    await holder.query('rollback');
    const few = await begin();
    await take(few, [2_000_000]);
    await expect(take(await begin(), from(3_000_000, keysAtMost + 1))).rejects.toMatchObject(waits);
  });

  it('leave half of the table of locks to others, however many merges there are', async () => {
    for (let merge = 0; merge < 8; merge += 1) await take(await begin(), from(merge * 1_000_000, keysAtMost));
    // one more wants whole buckets, in which these have keys
    await expect(take(await begin(), [99_000_000])).rejects.toMatchObject(waits);
    const { rows } = await store.pool.query<{ half: string }>(
      `select (count(distinct (classid, objid)) <= 8 * ${keysAtMost} + 512)::text as half from pg_locks l join pg_database d on d.oid = l.database where d.datname = current_database() and l.locktype = 'advisory'`,
    );
    expect(rows).toEqual([{ half: 'true' }]);
  });

  it('are taken in one order: merges of few and of many keys that cross never deadlock', async () => {
    const endAt = performance.now() + 3_000;
    let seed = 42;
    const random = (below: number) => (seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff) % below;
    let turns = 0;
    async function crossing(): Promise<void> {
      const client = await store.pool.connect();
      while (performance.now() < endAt) {
        const count = random(5) === 0 ? keysAtMost + 1 : 1 + random(50);
        await client.query('begin');
        await take(
          client,
          Array.from({ length: count }, () => random(200)),
        );
        await client.query('commit');
        turns += 1;
      }
      client.release();
    }
    await Promise.all(Array.from({ length: 8 }, crossing));
    expect(turns).toBeGreaterThan(50);
  });

  it('are of the typed key: another text of it is the same one', async () => {
    await take(await begin(), ['7']);
    await expect(take(await begin(), ['+007'])).rejects.toMatchObject(waits);
  });
});
