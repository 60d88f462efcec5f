import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { checkSource } from '../../src/capture/check-source.ts';
import { planPublication } from '../../src/capture/publication.ts';
import { ensureSlot, slotState } from '../../src/capture/slot.ts';
import { startPostgres, type LocalPostgres } from '../../src/dev/postgres.ts';
import { accepted, createSource, startReader, streaming } from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';

/** A server of its own: these tests stop it, or need settings of the whole server. */
async function ownServer(flags: Record<string, string> = {}): Promise<LocalPostgres> {
  const dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-`));
  const binDir = process.env['EMEND_TEST_PG_BIN'];
  const server = await startPostgres({
    dataDir: join(dir, 'postgres'),
    fast: true,
    flags,
    ...(binDir === undefined || binDir === '' ? {} : { binDir }),
  });
  onTestFinished(async () => {
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  return server;
}

test('a connected reader does not hold up a fast shutdown', async () => {
  const server = await ownServer();
  const source = await createSource(server.url());
  const reader = startReader(source);
  await streaming(reader);
  await accepted(reader, await source.insert(50));
  const start = performance.now();
  await server.stop();
  expect(performance.now() - start).toBeLessThan(2_000);
});

test('a reader whose queue is away gives way to a shutdown, and neither spins meanwhile', async () => {
  const server = await ownServer();
  const source = await createSource(server.url());
  const reader = startReader(source, {
    beforeAccept() {
      throw new Error('no');
    },
  });
  await streaming(reader);
  await source.insert(50);
  await eventually(() => expect(reader.capture.status().state).toBe('queue_unavailable'));
  const start = performance.now();
  const cpu = process.cpuUsage();
  await server.stop();
  expect(performance.now() - start).toBeLessThan(6_000);
  const { user, system } = process.cpuUsage(cpu);
  expect(user + system).toBeLessThan(1_500_000);
});

test('a slot that the server gives up under a reader is made again, and the sweep is asked', async () => {
  const server = await ownServer({
    max_slot_wal_keep_size: '1MB',
    max_wal_size: '64MB',
    min_wal_size: '32MB',
  });
  const source = await createSource(server.url());
  let accepts = false;
  let asked = 0;
  const reader = startReader(source, {
    beforeAccept() {
      if (!accepts) throw new Error('no');
    },
    // away at first: it is asked until it is there
    async passedOver() {
      asked += 1;
      if (asked === 2) throw new Error('the store is away');
    },
  });
  await streaming(reader);
  expect(asked).toBe(1);
  const unread = await source.insert(1);
  await source.db.query('create table other (t text)');
  for (let i = 0; i < 6; i += 1) {
    await source.db.query(
      `insert into other select repeat(md5(n::text), 20) from generate_series(1, 5000) as n`,
    );
    await source.db.query('select pg_switch_wal()');
  }
  await source.db.query('checkpoint');
  await eventually(() => expect(reader.warnings.join()).toMatch(/given slot \w+ up \(wal_removed\)/));
  accepts = true;
  await eventually(() => expect(asked).toBe(3));
  await streaming(reader);
  await accepted(reader, await source.insert(2));
  expect(reader.ids()).not.toContain(unread[0]);
});

test('every reason why a server cannot be a source is reported at once', async () => {
  const server = await ownServer({ wal_level: 'replica', max_replication_slots: '0', max_wal_senders: '0' });
  const admin = new pg.Client({ connectionString: server.url() });
  await admin.connect();
  await admin.query(`create role plain login password 'plain'`);
  await admin.query(
    `create database ascii encoding 'SQL_ASCII' template template0 locale_provider libc locale 'C'`,
  );
  await admin.end();
  const url = new URL(server.url('ascii'));
  url.username = url.password = 'plain';
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const problems = await checkSource(client, { slots: ['emend_x'] });
  await client.end();
  expect(problems.map(({ problem }) => problem)).toEqual([
    'wal_level is replica',
    'the database has the encoding SQL_ASCII',
    'role plain may not replicate',
    'every replication slot is taken',
    'every replication connection is taken',
  ]);
});

test('a suitable server has no problem, also when the reader already runs', async () => {
  const source = await createSource((await createDatabases('capture suitable')).sourceUrl);
  expect(await checkSource(source.db, { slots: [source.slot] })).toEqual([]);
  await streaming(startReader(source));
  expect(await checkSource(source.db, { slots: [source.slot] })).toEqual([]);
});

test('the plan puts a publication right and then has nothing left to do', async () => {
  const source = await createSource((await createDatabases('capture plan')).sourceUrl);
  const { db, publication } = source;
  const name = `"${publication}"`;
  await db.query('create table corrections.orders (like corrections.prices)');
  await db.query('create table public.of_others (n int)');
  const plan = { publication, targets: ['orders', 'prices'] };
  const apply = async (): Promise<void> => {
    for (const { sql } of await planPublication(db, plan)) await db.query(sql);
  };
  await db.query(
    `alter publication ${name} set (publish = 'insert, truncate', publish_via_partition_root = false)`,
  );
  await db.query(`alter publication ${name} add table public.of_others`);
  await db.query(`alter publication ${name} drop table corrections.prices`);
  await db.query(`alter publication ${name} add table corrections.prices (_id)`); // a column list and no filter
  await apply();
  expect(await planPublication(db, plan)).toEqual([]);
  const { rows } = await db.query<{ table: string; filter: string | null }>(
    `select tablename::text as table, rowfilter as filter from pg_publication_tables where pubname = $1 order by tablename`,
    [publication],
  );
  expect(rows).toEqual([
    { table: 'of_others', filter: null },
    { table: 'orders', filter: '(_backfill IS NULL)' },
    { table: 'prices', filter: '(_backfill IS NULL)' },
  ]);
});

test('a publication of all tables is refused', async () => {
  const source = await createSource((await createDatabases('capture all')).sourceUrl);
  await source.db.query(`drop publication "${source.publication}"`);
  await source.db.query(`create publication "${source.publication}" for all tables`);
  const plan = planPublication(source.db, { publication: source.publication, targets: ['prices'] });
  await expect(plan).rejects.toMatchObject({ code: 'server_unsuitable' });
});

test(
  'a slot that has to wait for an open transaction says for whose, and is made afterwards',
  { timeout: 30_000 },
  async () => {
    const server = await ownServer();
    const source = await createSource(server.url());
    const writer = await source.connect();
    await writer.query(`set application_name = 'nightly import'; begin; create table held (n int)`);
    await expect(ensureSlot(source.db, { slot: source.slot })).rejects.toMatchObject({
      code: 'timed_out',
      message: expect.stringMatching(/process \d+ \(nightly import\), open for 00:00:1/) as string,
    });
    expect(await slotState(source.db, source.slot)).toEqual({ kind: 'missing' });
    await writer.query('rollback');
    await writer.end();
    const both = await Promise.all([
      ensureSlot(source.db, { slot: source.slot }),
      source.connect().then((other) => ensureSlot(other, { slot: source.slot }).finally(() => other.end())),
    ]);
    expect(both).toContainEqual({ kind: 'created' });
    expect(await slotState(source.db, source.slot)).toMatchObject({ kind: 'ready' });
  },
);

test("a slot of another plugin is not taken for emend's", async () => {
  const source = await createSource((await createDatabases('capture foreign')).sourceUrl);
  await source.db.query(`select pg_create_physical_replication_slot($1)`, [source.slot]);
  onTestFinished(async () => {
    await source.db.query(`select pg_drop_replication_slot($1)`, [source.slot]);
  });
  await expect(slotState(source.db, source.slot)).rejects.toMatchObject({ code: 'server_unsuitable' });
});

test('stopping is clean and quick, and what was accepted does not come again', async () => {
  const source = await createSource((await createDatabases('capture stop')).sourceUrl);
  const reader = startReader(source);
  await streaming(reader);
  const ids = await source.insert(500);
  await accepted(reader, ids);
  const start = performance.now();
  await reader.capture.stop();
  await reader.running;
  expect(performance.now() - start).toBeLessThan(2_000);
  expect(reader.capture.status().state).toBe('stopped');
  await eventually(async () => expect((await source.slotRow()).pid).toBeNull());
  const next = startReader(source);
  const more = await source.insert(3);
  await accepted(next, more);
  expect(next.ids()).toEqual(more);
});
