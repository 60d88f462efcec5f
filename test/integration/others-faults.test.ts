/** Faults that users of other systems met, and that belong to no file of a promise of ours: see docs/faults.md. */
import { expect, onTestFinished, test } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { createPool } from '../../src/db/pool.ts';
import { createMerge, mergeSettings } from '../../src/merge/merge.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { accepted, createSource, startReader, streaming } from '../support/capture-harness.ts';
import type { Source } from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import { batchOf, createStore, logRows, noAbort, silentLog } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';

async function openSource(name: string): Promise<Source> {
  return createSource((await createDatabases(`others ${name}`)).sourceUrl);
}

test.each([
  {
    what: 'rows of a backfill',
    sql: `insert into corrections.prices (product_id, valid_from, valid_to, _backfill)
          select 'A', '-infinity', 'infinity', 'b' from generate_series(1, 200000)`,
  },
  {
    what: 'a table of others',
    sql: `create table neighbour as select n from generate_series(1, 400000) n`,
  },
])(
  'a long transaction of which nothing is sent ($what) is not taken for a dead connection, to be begun again for ever',
  { timeout: 60_000 },
  async ({ sql }) => {
    const source = await openSource('long');
    await source.db.query(
      `do $$ begin execute format('alter database %I set wal_sender_timeout = 20000', current_database()); end $$`,
    );
    const reader = startReader(source, { liveness: { pingAfterMs: 50, deadAfterMs: 100 } });
    await streaming(reader);
    await source.db.query(sql);
    await accepted(reader, await source.insert(3), 40_000);
    expect(reader.warnings).toEqual([]);
  },
);

test('a connection that dies inside a transaction, some pieces of which the queue has, brings all of it again', async () => {
  const source = await openSource('inside');
  let calls = 0;
  const reader = startReader(source, {
    atomicRows: 100,
    async beforeAccept() {
      calls += 1;
      if (calls !== 2) return;
      await source.db.query('select pg_terminate_backend($1)', [(await source.slotRow()).pid]);
      throw new Error('no');
    },
  });
  await streaming(reader);
  const ids = await source.insert(10_000, 'x'.repeat(200));
  await accepted(reader, ids);
  const [first] = ids;
  await eventually(() => expect(reader.ids().filter((id) => id === first)).toHaveLength(2));
});

test('a transaction in two phases comes when it is committed, and never when it is rolled back', async () => {
  const source = await openSource('prepared');
  const reader = startReader(source);
  await streaming(reader);
  const prepare = async (name: string): Promise<string[]> => {
    await source.db.query('begin');
    const ids = await source.insert(2);
    await source.db.query(`prepare transaction '${source.slot} ${name}'`);
    return ids;
  };
  const [kept, , between] = [await prepare('kept'), await prepare('undone'), await source.insert(1)];
  await accepted(reader, between);
  expect(reader.ids()).toEqual(between);
  await source.db.query(`rollback prepared '${source.slot} undone'`);
  await source.db.query(`commit prepared '${source.slot} kept'`);
  const last = await source.insert(1);
  await accepted(reader, last);
  expect(reader.ids()).toEqual([...between, ...kept, ...last]);
});

test('rows that came to the source from another server are read as all others', async () => {
  const source = await openSource('origin');
  const reader = startReader(source);
  await streaming(reader);
  const origin = source.slot;
  await source.db.query(`select pg_replication_origin_create($1)`, [origin]);
  onTestFinished(async () => {
    await source.db.query(`select pg_replication_origin_session_reset(), pg_replication_origin_drop($1)`, [
      origin,
    ]);
  });
  await source.db.query(`select pg_replication_origin_session_setup($1)`, [origin]);
  const ids = await source.insert(3);
  await accepted(reader, ids);
  expect(reader.ids()).toEqual(ids);
});

test('whatever an owner does to rows of a log, and whatever else is in the WAL, the reader goes on', async () => {
  const source = await openSource('owner');
  const reader = startReader(source);
  await streaming(reader);
  const ids = await source.insert(3);
  await source.db.query(`
    update corrections.prices set price = 0;
    delete from corrections.prices where price = 0;
    select pg_logical_emit_message(true, 'emend', 'nothing of it');
    select pg_logical_emit_message(false, 'emend', 'nothing of it');
    truncate corrections.prices;
    alter table corrections.prices alter price type numeric(20, 4)`);
  await source.db.query('vacuum full corrections.prices');
  ids.push(...(await source.insert(2)));
  await accepted(reader, ids);
  expect(reader.ids()).toEqual(ids);
  expect(reader.warnings).toEqual([]);
});

test('the slot follows a promotion where the server can do that, outlives its session, and hands out what is committed', async () => {
  const source = await openSource('slot');
  await streaming(startReader(source));
  const { rows } = await source.db.query<{ slot: Record<string, unknown>; version: number }>(
    `select to_jsonb(s) as slot, current_setting('server_version_num')::int as version
     from pg_replication_slots s where slot_name = $1`,
    [source.slot],
  );
  const { slot, version } = rows[0]!;
  expect(slot).toMatchObject({ temporary: false, two_phase: false });
  expect(slot['failover']).toBe(version >= 170_000 ? true : undefined);
});

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
      settings: { ...mergeSettings, ...settings },
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
  // what is there after the clock went an hour ahead, and was put right
  await store.pool.query(
    `insert into emend.merge (told_at, target, rows) values (now() + interval '1 hour', 'a', 0)`,
  );
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
  // rows at the same place of two partitions
  await store.handle(
    batchOf(
      logRows(spans!, [
        { _id: 1, k: 1, f: '2026-01-01', t: '2026-02-01', v: 'one' },
        { _id: 2, k: 1, f: '2026-02-01', t: 'infinity', v: 'two' },
        { _id: 3, k: 2, f: '2026-03-01', t: 'infinity', v: 'untouched' },
      ]),
      logRows(things!, [
        { _id: 4, k: 1, v: 'one' },
        { _id: 5, k: 2, v: 'two' },
      ]),
    ),
    noAbort,
  );
  await store.handle(
    batchOf(
      logRows(spans!, [{ _id: 11, k: 1, f: '2026-01-10', t: '2026-02-10', v: 'new' }]),
      logRows(things!, [
        { _id: 12, k: 1, _op: 'retract' },
        { _id: 13, k: 2, v: 'new' },
      ]),
    ),
    noAbort,
  );
  const read = async (sql: string) =>
    (await store.pool.query<{ row: string }>(sql)).rows.map(({ row }) => row);
  expect(
    await read(
      `select concat_ws(' ', tableoid::regclass, k, f, t, v) as row from public.spans order by k, f`,
    ),
  ).toEqual([
    'public.early 1 2026-01-01 2026-01-10 one',
    'public.early 1 2026-01-10 2026-02-10 new',
    'public.late 1 2026-02-10 infinity two',
    'public.late 2 2026-03-01 infinity untouched',
  ]);
  expect(await read(`select concat_ws(' ', k, v) as row from public.things`)).toEqual(['2 new']);
});

test('status tells what piles up: WAL that is not read, and time that nothing settles', async () => {
  const { config, start, source } = await createInstall('others lag', {
    ddl: `create table public.orders (id integer primary key)`,
    targets: { orders: facts('public.orders', { key: ['id'] }) },
  });
  const status = () => readStatus(config);
  const before = (await status()).slot!;
  await source.query(`select pg_logical_emit_message(false, 'emend', repeat('x', 3000000))`);
  await eventually(async () => {
    const { slot, settled, problems } = await status();
    expect(slot!.lagBytes - before.lagBytes).toBeGreaterThanOrEqual(3_000_000);
    expect(slot!.retainedBytes).toBeGreaterThanOrEqual(slot!.lagBytes);
    expect(settled.lagMs).toBeGreaterThanOrEqual(2_000);
    expect(problems.map(({ path }) => path)).toContain('slot');
  });
  await start();
  await eventually(async () => {
    const { slot, settled, problems } = await status();
    expect(slot!.lagBytes).toBeLessThan(3_000_000);
    expect(settled.lagMs).toBeLessThan(5_000);
    expect(problems.map(({ path }) => path)).not.toContain('slot');
  });
});

test('sessions of a machine that vanished give their locks back: the server looks for life after half a minute', async () => {
  const pool = createPool({
    url: (await createDatabases('others vanished')).storeUrl,
    applicationName: 'emend worker',
  });
  onTestFinished(() => pool.end());
  const { rows } = await pool.query(
    `select name, setting from pg_settings where name like 'tcp\\_keepalives%' order by name`,
  );
  // read back from the socket
  expect(rows).toEqual([
    { name: 'tcp_keepalives_count', setting: '3' },
    { name: 'tcp_keepalives_idle', setting: '30' },
    { name: 'tcp_keepalives_interval', setting: '10' },
  ]);
});
