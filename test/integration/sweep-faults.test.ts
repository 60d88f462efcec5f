import { Redis } from 'ioredis';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { withTransaction } from '../../src/db/transaction.ts';
import { judgeSweep } from '../../src/pipeline/sweep-status.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';
import { createSweep } from '../support/sweep.ts';

const ddl = `create table public.orders (id integer primary key, amount integer not null)`;
const targets = { orders: facts('public.orders', { key: ['id'] }) };

const config = `import { defineConfig, facts } from ${JSON.stringify(new URL('../../src/index.ts', import.meta.url).pathname)};
export default defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } });`;

function cliOf(install: Install): ReturnType<typeof createCli> {
  return createCli(config, environmentOf(install));
}

async function write(install: Install, ...ids: number[]): Promise<void> {
  await install.source.query(
    `insert into corrections.orders (id, amount) select i, i from unnest($1::integer[]) as i`,
    [ids.map(String)],
  );
}

async function merged(install: Install): Promise<number[]> {
  const { rows } = await install.store.query<{ id: string }>(`select id::text as id from public.orders`);
  return rows.map(({ id }) => Number(id)).toSorted((one, other) => one - other);
}

async function dropSlot(install: Install): Promise<void> {
  await eventually(() =>
    install.source.query(
      `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()`,
    ),
  );
}

/** Jobs of this install, and its epoch, are gone from the Redis that all tests share. */
async function forgetQueue(install: Install): Promise<void> {
  const { rows } = await install.store.query<{ id: string }>(`select id from emend.install`);
  const client = new Redis(install.config.queue.redis!);
  const keys = await client.keys(`{emend-${rows[0]!.id}}:*`);
  await client.del(...keys).finally(() => client.disconnect());
}

describe('a slot that was lost', () => {
  it('while the reader was down: what was written before there was a new one is merged', async () => {
    const install = await createInstall('sweep slot', { ddl, targets });
    const first = await install.start();
    await write(install, 1);
    await install.wait();
    await first.stop();
    await write(install, 2);
    await dropSlot(install);
    await write(install, 3);
    await install.start();
    await write(install, 4);
    await eventually(async () => expect(await merged(install)).toEqual([1, 2, 3, 4]));
  });

  it('is asked for again at once by the reader that makes a new one, wherever the sweep runs', async () => {
    const install = await createInstall('sweep asked', { ddl, targets });
    const sweep = await createSweep(install, { graceMs: 60_000 });
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ isComplete: true }));
    await dropSlot(install);
    await write(install, 1);
    const reader = await install.start('reader');
    await eventually(async () => {
      await sweep.tick();
      expect(sweep.batches.map(({ rows }) => rows)).toEqual([1]);
    });
    await reader.stop();
  });
});

describe('a source that is another one', () => {
  it('rows that bring transaction ids from a greater counter are compared all the same', async () => {
    const install = await createInstall('sweep moved', { ddl, targets });
    const before = await createSweep(install);
    await eventually(async () => expect(await before.tick()).toMatchObject({ isComplete: true }));
    await before.leave();
    // what a dump of another cluster looks like, read by a store that knows that one
    await install.source.query(
      `insert into corrections.orders (id, amount, _xid) select i, i, '9000000000' from generate_series(1, 20) as i`,
    );
    await install.store.query(`update emend.sweep set source = '1/00000001', below_xid = '9000000001'`);
    const sweep = await createSweep(install);
    await eventually(async () => {
      await sweep.tick();
      expect(sweep.batches.map(({ rows }) => rows)).toEqual([20]);
    });
    await write(install, 21);
    await eventually(async () => {
      await sweep.tick();
      // with those of before, which nobody has merged
      expect(sweep.batches.map(({ rows }) => rows)).toContain(21);
    });
  });

  it('a source whose counter went back, as after a restored snapshot, is compared from its beginning', async () => {
    const install = await createInstall('sweep back', { ddl, targets });
    await write(install, 1, 2, 3);
    const before = await createSweep(install);
    await eventually(async () => expect(await before.tick()).toMatchObject({ isComplete: true }));
    await before.leave();
    await install.store.query(`update emend.sweep set below_xid = '9000000000'`);
    const sweep = await createSweep(install);
    await eventually(async () => {
      await sweep.tick();
      expect(sweep.batches.map(({ rows }) => rows)).toEqual([3]);
    });
  });
});

it('a store that was restored to an older state is filled from the log', async () => {
  const install = await createInstall('sweep restored', { ddl, targets });
  const first = await install.start();
  await write(install, 1, 2);
  await install.wait();
  await first.stop();
  const store = new URL(install.config.store.url).pathname.slice(1);
  await asAdmin(install, store, (admin) =>
    admin.query(
      `create database ${pg.escapeIdentifier(`${store}_backup`)} template ${pg.escapeIdentifier(store)}`,
    ),
  );
  const second = await install.start();
  await write(install, 3, 4);
  await install.wait();
  // the mark has passed them, in the store that is lost
  await eventually(async () => {
    const { rows } = await install.store.query(
      `select from emend.sweep_round where complete_as_of > (select max(told_at) from emend.merge)`,
    );
    expect(rows).toHaveLength(1);
  });
  await second.stop();
  await asAdmin(install, store, async (admin) => {
    await admin.query(`drop database ${pg.escapeIdentifier(store)} with (force)`);
    await admin.query(
      `alter database ${pg.escapeIdentifier(`${store}_backup`)} rename to ${pg.escapeIdentifier(store)}`,
    );
  });
  await eventually(async () => expect(await merged(install)).toEqual([1, 2]));
  await install.start();
  await eventually(async () => expect(await merged(install)).toEqual([1, 2, 3, 4]));
});

/** In another database, with nobody connected to this one. */
async function asAdmin(
  install: Install,
  database: string,
  body: (admin: pg.Client) => Promise<unknown>,
): Promise<void> {
  const url = new URL(install.config.store.url);
  url.pathname = '/postgres';
  const admin = new pg.Client({ connectionString: url.href });
  await admin.connect();
  try {
    await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, [
      database,
    ]);
    await eventually(() => body(admin));
  } finally {
    await admin.end();
  }
}

it('one sweep leads at a time, and another process takes over when it is killed', async () => {
  const install = await createInstall('sweep lead', { ddl, targets });
  const leaders = async (): Promise<number[]> => {
    const { rows } = await install.store.query<{ pid: string }>(
      `select l.pid::text as pid
       from pg_locks l
       where l.locktype = 'advisory' and l.mode = 'ExclusiveLock' and l.granted
         and l.classid::bigint = ${69n << 24n} and l.objid::bigint = 2
         and l.database = (select d.oid from pg_database d where d.datname = current_database())`,
    );
    return rows.map(({ pid }) => Number(pid));
  };
  const cli = cliOf(install);
  const killed = cli.start(['worker']);
  await killed.said('emend is running');
  const [first] = await eventually(async () => {
    const found = await leaders();
    expect(found).toHaveLength(1);
    return found;
  });
  await install.start();
  await write(install, 1);
  await install.wait();
  expect(await leaders()).toEqual([first]);
  killed.process.kill('SIGKILL');
  await killed.ended;
  await eventually(async () => {
    const found = await leaders();
    expect(found).toHaveLength(1);
    expect(found).not.toEqual([first]);
  });
  const { rows } = await install.store.query<{ now: string }>(`select clock_timestamp()::text as now`);
  await eventually(async () => {
    const { rowCount } = await install.store.query(
      `select from emend.sweep_round where ended_at > $1::timestamptz`,
      [rows[0]!.now],
    );
    expect(rowCount).toBe(1);
  });
});

it('the role of readers may do all that the sweep does in the source', async () => {
  const install = await createInstall('sweep rights', { ddl, targets });
  const { rows } = await install.store.query<{ id: string }>(`select id from emend.install`);
  await write(install, 1, 2);
  const sweep = await createSweep(install, {}, `emend_reader_${rows[0]!.id}`);
  await eventually(async () => {
    await sweep.tick();
    expect(sweep.batches.map(({ rows: count }) => count)).toEqual([2]);
  });
});

describe('emend sweep', () => {
  it('and status name the transaction that the sweep cannot look behind', () => {
    const calm = {
      roundAt: null,
      roundAgoMs: 900,
      compared: 0,
      enqueued: 0,
      missing: 0,
      lastEnqueuedAt: null,
    };
    const sweep = { ...calm, lastEnqueued: 0, behindMs: 4_000, leftOut: [], migratedAgoMs: 900_000 };
    const heldFor = (forMs: number) => judgeSweep({ ...sweep, heldBy: { who: 'process 7', forMs } });
    expect(heldFor(50_000)).toEqual([]);
    const never = { ...sweep, roundAgoMs: null, behindMs: null, heldBy: null };
    expect(judgeSweep(never)).toMatchObject([{ path: 'sweep', remedy: expect.stringMatching(/worker/) }]);
    expect(judgeSweep({ ...never, migratedAgoMs: 2_000 })).toEqual([]);
    expect(heldFor(70_000)).toMatchObject([{ path: 'sweep', problem: expect.stringContaining('process 7') }]);
  });

  it('and wait names it, where what is waited for may be lost', async () => {
    const install = await createInstall('sweep held', { ddl, targets });
    await write(install, 1);
    await withTransaction(install.source, async (client) => {
      await client.query(`create table public.held (id integer)`);
      await expect(waitUntilMerged({ config: install.config, timeoutMs: 6_000 })).rejects.toMatchObject({
        code: 'timed_out',
        remedy: expect.stringMatching(/process \d+ .* has not ended its transaction for \d+ s/) as string,
      });
    });
  });

  it('says what it found, with and without a worker that leads', async () => {
    const install = await createInstall('sweep command', { ddl, targets });
    const cli = cliOf(install);
    await write(install, 1, 2, 3);
    const alone = await eventually(async () => {
      const swept = await cli.json<{ enqueued: number; compared: number; isComplete: boolean }>(['sweep']);
      expect(swept).toMatchObject({ compared: 3, enqueued: 3, isComplete: true });
      return swept;
    });
    expect(alone.isComplete).toBe(true);
    await install.start('worker');
    await eventually(async () => expect(await merged(install)).toEqual([1, 2, 3]));
    await forgetQueue(install);
    const { code, stdout } = await cli.run(['sweep', '--all']);
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^3 rows compared, nothing was missing/),
    });
    // exit code 1: no reader runs
    const status = await cli.run(['status', '--json']);
    expect((JSON.parse(status.stdout) as { sweep: object }).sweep).toMatchObject({
      missing: 0,
      lastEnqueued: 3,
    });
  });
});
