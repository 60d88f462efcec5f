import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const ddl = `create table public.orders (id integer primary key, amount integer not null)`;
const targets = { orders: facts('public.orders', { key: ['id'] }) };

async function write(install: Install, first: number, last: number): Promise<void> {
  await install.source.query(
    `insert into corrections.orders (id, amount) select i, i from generate_series($1::integer, $2::integer) as i`,
    [String(first), String(last)],
  );
}

async function count(install: Install): Promise<number> {
  const { rows } = await install.store.query<{ rows: string }>(
    `select count(*)::text as rows from public.orders`,
  );
  return Number(rows[0]!.rows);
}

/** Everything that was committed is behind the slot's confirmed position: the source will not send it again. */
async function confirmed(install: Install): Promise<void> {
  const { rows } = await install.source.query<{ lsn: string }>(`select pg_current_wal_lsn()::text as lsn`);
  await eventually(async () => {
    const { rows: slots } = await install.source.query<{ behind: string }>(
      `select (confirmed_flush_lsn < $1::pg_lsn)::text as behind
       from pg_replication_slots
       where database = current_database()`,
      [rows[0]!.lsn],
    );
    expect(slots).toEqual([{ behind: 'false' }]);
  });
}

describe('jobs that Redis forgot after the source was told that it has them', () => {
  let dir: string;
  let redis: LocalRedis;
  let install: Install;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`));
    redis = await startRedis({ dir });
    install = await createInstall('sweep redis', { ddl, targets, redisUrl: redis.url });
  });
  afterAll(async () => {
    await redis.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  async function flushAll(): Promise<void> {
    const client = new Redis(redis.url);
    await client.flushall().finally(() => client.disconnect());
  }

  // 100,000 alone on two cores; beside other test files there is less of the machine
  const forgotten = Number(process.env.EMEND_SWEEP_ROWS ?? 30_000);

  it(`are merged within 10 s, ${forgotten} rows of them, when FLUSHALL met them behind a stopped worker`, async () => {
    const reader = await install.start('reader');
    for (let start = 0; start < forgotten; start += 1_000) await write(install, start + 1, start + 1_000);
    await confirmed(install);
    await reader.stop();
    await flushAll();
    expect(await count(install)).toBe(0);
    const startedAt = performance.now();
    const worker = await install.start('worker');
    await eventually(async () => expect(await count(install)).toBe(forgotten), { timeoutMs: 60_000 });
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    await worker.stop();
  });

  it('are merged when Redis is killed under a worker at work, and comes back empty', async () => {
    const before = await count(install);
    await install.start();
    const blocker = await install.store.connect();
    await blocker.query('begin');
    await blocker.query('lock table public.orders in exclusive mode');
    for (let start = 200_000; start < 210_000; start += 1_000) await write(install, start + 1, start + 1_000);
    await confirmed(install);
    await redis.kill();
    rmSync(dir, { recursive: true, force: true });
    redis = await startRedis({ dir, port: redis.port });
    await blocker.query('commit');
    blocker.release();
    await eventually(async () => expect(await count(install)).toBe(before + 10_000), { timeoutMs: 30_000 });
  });
});

it('jobs that the queue in the store forgot are merged all the same', async () => {
  const install = await createInstall('sweep postgres', { ddl, targets, queue: 'postgres' });
  const reader = await install.start('reader');
  for (let start = 0; start < 5_000; start += 500) await write(install, start + 1, start + 500);
  await confirmed(install);
  await reader.stop();
  await install.store.query('truncate emend_queue.job, emend_queue.emend_epoch, emend_queue.meta cascade');
  await install.start('worker');
  await eventually(async () => expect(await count(install)).toBe(5_000), { timeoutMs: 30_000 });
});

it('a queue that lost single jobs, and not its epoch, is noticed by what is missing', async () => {
  const install = await createInstall('sweep partial', { ddl, targets, queue: 'postgres' });
  const reader = await install.start('reader');
  for (let start = 0; start < 5_000; start += 500) await write(install, start + 1, start + 500);
  await confirmed(install);
  await reader.stop();
  const { rowCount } = await install.store.query(
    'delete from emend_queue.job where id in (select id from emend_queue.job limit 5)',
  );
  expect(rowCount).toBe(5);
  await install.start('worker');
  await eventually(async () => expect(await count(install)).toBe(5_000), { timeoutMs: 30_000 });
});
