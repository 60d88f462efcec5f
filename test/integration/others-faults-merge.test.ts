/** Faults of merging that users of other systems met, and that no other file is about: docs/faults.md. */
import { expect, onTestFinished, test } from 'vitest';
import { createPool } from '../../src/db/pool.ts';
import { createMerge, mergeSessions } from '../../src/merge/merge.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { batchOf, createStore, logRows, noAbort, silentLog } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';

/** Two targets of facts, `a` before `b` in the order of merges, each with a row of key 1. */
async function openStore(name: string): Promise<StoreUnderTest & { url: string }> {
  const { storeUrl: url } = await createDatabases(`others ${name}`);
  const ddl =
    'create table public.a (k integer primary key, v text); create table public.b (like public.a including all)';
  const store = await createStore(url, ddl, [
    { name: 'a', kind: 'facts', key: ['k'] },
    { name: 'b', kind: 'facts', key: ['k'] },
  ]);
  onTestFinished(() => store.pool.end());
  await store.handle(batch(store, 1, 'before'), noAbort);
  return { ...store, url };
}

function batch({ targets: [a, b] }: StoreUnderTest, _id: number, v: string): ReturnType<typeof batchOf> {
  return batchOf(logRows(a!, [{ _id, k: 1, v }]), logRows(b!, [{ _id: _id + 1, k: 1, v }]));
}

async function contents({ pool }: StoreUnderTest): Promise<unknown> {
  const { rows } = await pool.query(
    `select (select v from public.a) as a, (select v from public.b) as b, (select count(*) from emend.dead_letter) as set_aside`,
  );
  return rows[0];
}

test('a row that others change while its merge waits for them is no fault of its correction, which is merged and not set aside', async () => {
  const store = await openStore('meanwhile');
  const other = await store.pool.connect();
  onTestFinished(() => other.release(true));
  await other.query(`begin; update public.a set v = 'of others'`);
  const merging = store.handle(batchOf(logRows(store.targets[0]!, [{ _id: 11, k: 1, v: 'after' }])), noAbort);
  await eventually(async () => {
    const { rowCount } = await store.pool.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    expect(rowCount).toBe(1);
  });
  await other.query('commit');
  await merging;
  expect(await contents(store)).toEqual({ a: 'after', b: 'before', set_aside: '0' });
});

test.each([
  { what: 'a lock that is not given in time', settings: { lock_timeout: '300' }, code: '55P03' },
  { what: 'a statement that takes too long', settings: { statement_timeout: '300' }, code: '57014' },
  { what: 'a deadlock with others', settings: { deadlock_timeout: '2000' }, code: '40P01' },
])(
  '$what is no fault of the rows: none is set aside, and all are merged later',
  async ({ settings, code }) => {
    const store = await openStore('timeout');
    const pool = createPool({
      url: store.url,
      applicationName: 'emend worker',
      ...mergeSessions,
      settings: { ...mergeSessions.settings, ...settings },
    });
    const other = await store.pool.connect();
    onTestFinished(async () => {
      other.release(true);
      await pool.end();
    });
    const handle = await createMerge({ pool, targets: store.targets, log: silentLog });
    await other.query(`begin; set local deadlock_timeout = '100s'; update public.b set v = 'of others'`);
    const merging = handle(batch(store, 11, 'after'), noAbort);
    merging.catch(() => undefined);
    if (code === '40P01') {
      await eventually(async () => {
        const { rowCount } = await store.pool.query(
          `select from pg_stat_activity where datname = current_database() and application_name = 'emend worker' and wait_event_type = 'Lock'`,
        );
        expect(rowCount).toBe(1);
      });
      await other.query(`update public.a set v = 'of others'`);
    }
    await expect(merging).rejects.toMatchObject({ code });
    await other.query('rollback');
    expect(await contents(store)).toEqual({ a: 'before', b: 'before', set_aside: '0' });
    await handle(batch(store, 11, 'after'), noAbort);
    expect(await contents(store)).toEqual({ a: 'after', b: 'after', set_aside: '0' });
  },
);

test('a clock that is put back makes no time of belief earlier than the one before it', async () => {
  const store = await openStore('clock');
  // as if the clock had been an hour ahead by then
  for (const [table, time] of Object.entries(timesOfBelief))
    await store.pool.query(`update ${table} set ${time} = ${time} + interval '1 hour'`);
  await store.handle(batch(store, 11, 'second'), noAbort);
  await store.handle(batch(store, 21, 'third'), noAbort);
  const { rows } = await store.pool.query(
    `select bool_and(l.told_at > before.told_at) as rises, count(*)
     from emend.ledger l
     join emend.ledger before on before.target = l.target and before._id < l._id`,
  );
  expect(rows).toEqual([{ rises: 't', count: '6' }]);
  const history = await store.pool.query(
    `select v from emend.a_history where _known_from < _known_to order by _version`,
  );
  expect(history.rows).toEqual([{ v: 'before' }, { v: 'second' }]);
});

const timesOfBelief = {
  'emend.merge': 'told_at',
  'emend.ledger_recent': 'told_at',
  'public.a': '_known_from',
  'public.b': '_known_from',
};

test('a target in partitions is merged as any other, also where pieces come to lie in other partitions', async () => {
  const { storeUrl } = await createDatabases('others partitions');
  const store = await createStore(
    storeUrl,
    `create table public.spans (k integer, f date, t date not null, v text, primary key (k, f)) partition by range (f);
     create table public.early partition of public.spans for values from (minvalue) to ('2026-02-01');
     create table public.late partition of public.spans for values from ('2026-02-01') to (maxvalue);
     create table public.things (k integer primary key, v text) partition by list (k);
     create table public.ones partition of public.things for values in (1);
     create table public.others partition of public.things default`,
    [
      { name: 'spans', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'override' } },
      { name: 'things', kind: 'facts', key: ['k'] },
    ],
  );
  onTestFinished(() => store.pool.end());
  const [spans, things] = store.targets;
  const merge = async (...parts: Parameters<typeof batchOf>): Promise<void> =>
    store.handle(batchOf(...parts), noAbort);
  await merge(
    logRows(spans!, [
      { _id: 1, k: 1, f: '2026-01-01', t: '2026-02-01', v: 'one' },
      // at the same place of the other partition
      { _id: 2, k: 2, f: '2026-03-01', t: 'infinity', v: 'untouched' },
    ]),
    logRows(things!, [
      { _id: 3, k: 1, v: 'one' },
      { _id: 4, k: 2, v: 'untouched' },
    ]),
  );
  await merge(
    logRows(spans!, [{ _id: 11, k: 1, f: '2026-01-10', t: '2026-02-10', v: 'new' }]),
    logRows(things!, [{ _id: 12, k: 1, _op: 'retract' }]),
  );
  await merge(logRows(spans!, [{ _id: 21, k: 1, f: '2026-01-20', t: '2026-02-05', v: 'last' }]));
  const read = async (sql: string) =>
    (await store.pool.query<{ row: string }>(sql)).rows.map(({ row }) => row);
  expect(
    await read(
      `select concat_ws(' ', tableoid::regclass, k, f, t, v) as row from public.spans order by k, f`,
    ),
  ).toEqual([
    'public.early 1 2026-01-01 2026-01-10 one',
    'public.early 1 2026-01-10 2026-01-20 new',
    'public.early 1 2026-01-20 2026-02-05 last',
    'public.late 1 2026-02-05 2026-02-10 new',
    'public.late 2 2026-03-01 infinity untouched',
  ]);
  expect(await read(`select concat_ws(' ', k, v) as row from public.things`)).toEqual(['2 untouched']);
});
