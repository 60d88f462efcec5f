/** Faults of reading and watching that users of other systems met, and that no other file is about: docs/faults.md. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { createPool } from '../../src/db/pool.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { accepted, createSource, startReader, streaming } from '../support/capture-harness.ts';
import type { Source } from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';

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
      await sleep(300); // in which the end of what the queue has would be confirmed
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

test('status tells what piles up: WAL that is not read, and time that nothing settles', async () => {
  const install = await createInstall('others lag', {
    ddl: `create table public.orders (id integer primary key)`,
    targets: { orders: facts('public.orders', { key: ['id'] }) },
  });
  const status = () => readStatus(install.config);
  const before = (await status()).readers[0]!.slot!;
  await install.source.query(`select pg_logical_emit_message(false, 'emend', repeat('x', 3000000))`);
  await eventually(async () => {
    const { readers, settled, problems } = await status();
    const slot = readers[0]!.slot;
    expect(slot!.lagBytes - before.lagBytes).toBeGreaterThanOrEqual(3_000_000);
    expect(slot!.retainedBytes).toBeGreaterThanOrEqual(slot!.lagBytes);
    expect(settled.lagMs).toBeGreaterThanOrEqual(2_000);
    expect(problems.map(({ path }) => path)).toContain('slot');
  });
  await install.start();
  await eventually(async () => {
    const { readers, settled, problems } = await status();
    const slot = readers[0]!.slot;
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
