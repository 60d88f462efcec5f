import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { createLogger } from '../../src/observe/logger.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { startSourceServer } from '../support/source-server.ts';

const ddl = `create table public.orders (id integer primary key, amount integer not null)`;
const { targets } = defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } });

async function order(install: Install, ...ids: number[]): Promise<void> {
  await eventually(() =>
    install.source.query(
      `insert into corrections.orders (id, amount) select i, i from unnest($1::integer[]) as i`,
      [ids],
    ),
  );
}

async function merged({ store }: Install): Promise<number[]> {
  const { rows } = await store.query<{ id: string }>(`select id from public.orders order by id`);
  return rows.map(({ id }) => Number(id));
}

/** What status says of slot and publication. */
async function named({ config }: Install): Promise<string[]> {
  const { problems } = await readStatus(config);
  return problems
    .filter(({ path }) => path === 'slot' || path === 'publication')
    .map(({ path, problem }) => `${path} ${problem}`);
}

async function slotOf({ source }: Install): Promise<string> {
  const { rows } = await source.query<{ name: string }>(
    `select slot_name as name from pg_replication_slots where database = current_database()`,
  );
  return rows[0]!.name;
}

/** Starts it, and waits until nothing is said any more and all of these rows are merged. */
async function recovers(install: Install, ...ids: number[]): Promise<void> {
  const pipeline = await install.start();
  await eventually(async () => expect(await merged(install)).toEqual(ids));
  // a server lets a slot's WAL go at its next snapshot of running transactions, which it makes every 15 s
  await eventually(async () => expect(await named(install)).toEqual([]), { timeoutMs: 40_000 });
  await order(install, 1_000);
  await install.wait();
  expect(await merged(install)).toEqual([...ids, 1_000]);
  await pipeline.stop();
}

it('missing: is named, and a reader makes it', async () => {
  const install = await createInstall('slot missing', { ddl, targets });
  expect(await named(install)).toEqual(['slot idle: no reader is connected']);
  await order(install, 1);
  await install.source.query(`select pg_drop_replication_slot($1)`, [await slotOf(install)]);
  expect(await named(install)).toEqual(['slot missing: there is no replication slot']);
  await recovers(install, 1);
});

it('lost while no reader ran: is named with its reason, and a reader makes it again', async () => {
  const server = await startSourceServer({
    max_slot_wal_keep_size: '2MB',
    max_wal_size: '64MB',
    min_wal_size: '32MB',
  });
  const install = await createInstall('slot lost', { ddl, targets, sourceUrl: server.url });
  await order(install, 1, 2);
  await install.source.query('create table public.other (t text)');
  for (let segment = 0; segment < 6; segment += 1) {
    await install.source.query(
      `insert into public.other select repeat('x', 100) from generate_series(1, 1000)`,
    );
    await install.source.query('select pg_switch_wal()');
  }
  await install.source.query('checkpoint');
  expect(await named(install)).toEqual(['slot lost: the source has given it up (wal_removed)']);
  await recovers(install, 1, 2);
});

it('taken: whatever else reads it is named, and a reader of emend takes over when it ends', async () => {
  const install = await createInstall('slot taken', { ddl, targets });
  const slot = await slotOf(install);
  const settings: pg.ClientConfig & { replication: 'database' } = {
    connectionString: install.config.source.url,
    application_name: 'curious',
    replication: 'database',
  };
  const other = new pg.Client(settings);
  other.on('error', () => undefined);
  onTestFinished(() => other.end());
  await other.connect();
  const reading = other.query(
    `START_REPLICATION SLOT "${slot}" LOGICAL 0/0 (proto_version '1', publication_names '"${slot}"')`,
  );
  reading.catch(() => undefined);
  await eventually(async () =>
    expect(await named(install)).toEqual([
      expect.stringMatching(/^slot taken: curious \(process \d+\) reads it, and is no reader of emend$/),
    ]),
  );
  const pipeline = await install.start();
  await order(install, 1);
  // what another one has taken comes all the same
  await eventually(async () => expect(await merged(install)).toEqual([1]));
  await install.source.query(
    `select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1`,
    [slot],
  );
  await eventually(async () => expect(await named(install)).toEqual([]));
  expect((await readStatus(install.config)).readers[0]!.slot).toMatchObject({ state: 'reading' });
  await pipeline.stop();
});

it('ahead of a source that was put back without it: is named, and a reader makes it again', async () => {
  const server = await startSourceServer();
  const install = await createInstall('slot ahead', { ddl, targets, sourceUrl: server.url });
  await server.backUp();
  const pipeline = await install.start();
  await order(install, ...Array.from({ length: 200 }, (_, index) => index + 2_000));
  await install.wait();
  // the source will count the transactions up to this mark once more, for rows that were not there when it was set
  const { rows: logged } = await install.source.query(
    `select max(_xid::text::bigint) as xid from corrections.orders`,
  );
  await eventually(async () => {
    const { rows } = await install.store.query(`select below_xid::text::bigint as below from emend.sweep`);
    expect(Number(rows[0].below)).toBeGreaterThan(Number(logged[0].xid));
  });
  await pipeline.stop();
  // what a reader has confirmed is written down at a shutdown from 17 on; this is written down by all
  await install.source.query(`select pg_replication_slot_advance($1, pg_current_wal_lsn())`, [
    await slotOf(install),
  ]);
  await install.store.query(`truncate public.orders, emend.ledger_recent, emend.merge`);
  await server.restore({ keepSlots: true });
  await order(install, 1);
  expect(await named(install)).toEqual(['slot lost: the source has given it up (ahead_of_source)']);
  await recovers(install, 1);
});

it('a publication that was dropped is named; once it is migrated again, everything is merged', async () => {
  const install = await createInstall('slot unpublished', { ddl, targets });
  const publication = await slotOf(install);
  await install.source.query(`drop publication ${publication}`);
  await order(install, 1);
  expect(await named(install)).toEqual([
    'slot idle: no reader is connected',
    `publication missing: ${publication} is not as migrated (publication of the live rows of all logs)`,
  ]);
  await migrate({ config: install.config, print: false });
  // before 18 the server cannot decode what was written without it: the message of the reader says to drop the slot
  await install.source.query(`select pg_drop_replication_slot($1)`, [publication]);
  await recovers(install, 1);
});

it('unreserved: the source is about to give it up, which is named while a reader can still catch up', async () => {
  // no checkpoint comes by itself: that is what gives it up
  const server = await startSourceServer({ max_slot_wal_keep_size: '2MB', checkpoint_timeout: '1h' });
  const install = await createInstall('slot unreserved', { ddl, targets, sourceUrl: server.url });
  await order(install, 1, 2);
  for (let segment = 0; segment < 3; segment += 1) {
    await install.source.query(`select pg_logical_emit_message(false, 'other', 'x')`);
    await install.source.query('select pg_switch_wal()');
  }
  expect(await named(install)).toEqual([
    'slot idle: no reader is connected',
    'slot unreserved: the server is about to throw away WAL that was not read yet',
  ]);
  expect((await readStatus(install.config)).readers[0]!.slot).toMatchObject({
    state: 'idle',
    walStatus: 'unreserved',
  });
  await recovers(install, 1, 2);
});

it('foreign: a slot of that name of another plugin, or of another database, is named, and the reader stops', async () => {
  const other = await createInstall('slot of others', { ddl, targets });
  const install = await createInstall('slot foreign', { ddl, targets });
  const slot = await slotOf(install);
  await order(install, 1);
  const foreign = [
    {
      make: () => install.source.query(`select pg_create_physical_replication_slot($1)`, [slot]),
      says: /^slot foreign: slot emend_\w+ belongs to a standby, database -; emend needs it for pgoutput in /,
    },
    {
      make: () => other.source.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slot]),
      says: /^slot foreign: slot emend_\w+ belongs to pgoutput, database slot_of_others_\w+_source; emend needs it/,
    },
  ];
  for (const { make, says } of foreign) {
    await install.source.query(`select pg_drop_replication_slot($1)`, [slot]);
    await make();
    expect(await named(install)).toEqual([expect.stringMatching(says)]);
    expect((await readStatus(install.config)).readers[0]!.slot).toMatchObject({ state: 'foreign' });
    const reader = await install.start('reader');
    await expect(reader.ended).rejects.toMatchObject({ code: 'server_unsuitable' });
    await reader.stop();
  }
  await install.source.query(`select pg_drop_replication_slot($1)`, [slot]);
  await recovers(install, 1);
});

it('dropped in the moment in which a reader begins to read it: the reader makes it again, and does not stop', async () => {
  const direct = await createInstall('slot dropped', { ddl, targets });
  const slot = await slotOf(direct);
  let drops = 1;
  const replicationUrl = await startProxy(direct.config.source.url, async (sent) => {
    if (drops === 0 || !sent.includes('START_REPLICATION')) return;
    drops -= 1;
    await direct.source.query(`select pg_drop_replication_slot($1)`, [slot]);
  });
  const config = { ...direct.config, source: { ...direct.config.source, replicationUrl } };
  const log = createLogger({ level: 'silent' });
  const reader = await startPipeline({ config, roles: ['reader', 'worker'], log });
  onTestFinished(() => reader.stop());
  const stopped = reader.ended.catch((error: unknown) => error);
  await order(direct, 1);
  await eventually(async () => expect(await merged(direct)).toEqual([1]));
  await eventually(async () => expect(await named(direct)).toEqual([]));
  expect(drops).toBe(0);
  expect(await Promise.race([stopped, Promise.resolve('still running')])).toBe('still running');
});

/** A way to a server that stops at each message of the client until `before` has ended. */
async function startProxy(url: string, before: (sent: string) => Promise<void>): Promise<string> {
  const { port, hostname } = new URL(url);
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname);
    client.on('error', () => undefined).on('close', () => server.destroy());
    server.on('error', () => undefined).on('close', () => client.destroy());
    let last = Promise.resolve();
    client.on('data', (data) => {
      last = last.then(() => before(data.toString('latin1'))).then(() => void server.write(data));
    });
    server.on('data', (data) => client.write(data));
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void proxy.close());
  const way = new URL(url);
  way.port = String((proxy.address() as AddressInfo).port);
  return way.href;
}
