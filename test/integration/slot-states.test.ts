import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
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
  await eventually(async () => expect(await named(install)).toEqual([]));
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
  expect((await readStatus(install.config)).slot).toMatchObject({ state: 'reading' });
  await pipeline.stop();
});

it('ahead of a source that was put back without it: is named, and a reader makes it again', async () => {
  const server = await startSourceServer();
  const install = await createInstall('slot ahead', { ddl, targets, sourceUrl: server.url });
  await server.backUp();
  const pipeline = await install.start();
  await order(install, ...Array.from({ length: 200 }, (_, index) => index + 2_000));
  await install.wait();
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
