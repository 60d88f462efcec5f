import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { pino } from 'pino';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startRedis, type LocalRedis, type RedisOptions } from '../../src/dev/redis.ts';
import type { QueueHome } from '../../src/queue/home.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { makeBatch, newPrefix, openTestQueue, recorder } from '../support/queue.ts';

describe.each(['redis', 'postgres'] as const)('a queue in %s that was emptied', (kind) => {
  let home: QueueHome;
  let empty: () => Promise<void>;
  beforeAll(async () => {
    const { storeUrl } = await createDatabases('queue_outage');
    if (kind === 'postgres') {
      home = { storeUrl };
      empty = () =>
        runSql(storeUrl, 'truncate emend_queue.job, emend_queue.emend_epoch, emend_queue.meta cascade');
    } else {
      const { url } = await startOwnRedis();
      home = { redisUrl: url };
      empty = () => runRedis(url, (client) => client.flushall());
    }
  });

  test('is not durable once, and takes the same batches again under the new epoch', async () => {
    const queue = await openTestQueue(home);
    const durable = queue.createDurable();
    const epoch = await queue.epoch();
    await queue.publish([makeBatch('a'), makeBatch('b')]);
    expect(await durable()).toBe(true);
    await empty();
    expect(await durable()).toBe(false);
    expect(await durable()).toBe(true);
    expect(await queue.epoch()).not.toBe(epoch);
    await queue.publish([makeBatch('a'), makeBatch('b')]);
    expect(await queue.counts()).toMatchObject({ waiting: 2 });
  });

  test('is not durable once for each reader that asks, whoever of them asks first', async () => {
    const queue = await openTestQueue(home);
    const [one, two] = [queue.createDurable(), queue.createDurable()];
    await queue.publish([makeBatch('a')]);
    await empty();
    expect([await one(), await one(), await two(), await two()]).toEqual([false, true, false, true]);
    expect(await queue.createDurable()()).toBe(true);
  });

  test('is not durable although another process has set the new epoch by then', async () => {
    const prefix = newPrefix();
    const queue = await openTestQueue(home, { prefix });
    const durable = queue.createDurable();
    await queue.publish([makeBatch('a')]);
    await empty();
    await openTestQueue(home, { prefix });
    expect(await durable()).toBe(false);
    expect(await durable()).toBe(true);
  });

  test('aborts the signal of the job at work, whose lock is gone, and its worker goes on', async () => {
    const queue = await openTestQueue(home, { tuning: { lockMs: 600, stalledCheckMs: 300 } });
    const aborted: string[] = [];
    const { handled, handle } = recorder();
    let started = false;
    queue.startWorker(
      async (batch, signal) => {
        if (batch.id !== 'lost') return handle(batch);
        started = true;
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        aborted.push(batch.id);
      },
      { concurrency: 1 },
    );
    await queue.publish([makeBatch('lost')]);
    await eventually(() => expect(started).toBe(true));
    await empty();
    await eventually(() => expect(aborted).toEqual(['lost']));
    await queue.publish([makeBatch('next')]);
    await eventually(() => expect(handled).toEqual([makeBatch('next')]));
  });
});

describe('a Redis that is away', () => {
  test('settles what is added within the timeout, and everything goes on by itself when it is back, empty', async () => {
    const dir = ownDir();
    const redis = await startOwnRedis({ dir });
    const lines: string[] = [];
    const log = pino({}, { write: (line: string) => void lines.push(line) });
    const queue = await openTestQueue({ redisUrl: redis.url }, { log, tuning: { addTimeoutMs: 1_500 } });
    const durable = queue.createDurable();
    const { handled, handle } = recorder();
    queue.startWorker(handle, { concurrency: 2 });
    await queue.publish([makeBatch('before')]);
    await eventually(() => expect(handled).toHaveLength(1));

    await redis.kill();
    const startedAt = performance.now();
    await expect(queue.publish([makeBatch('during')])).rejects.toMatchObject({ code: 'queue_unavailable' });
    await expect(durable()).rejects.toThrow();
    await expect(queue.counts()).rejects.toThrow();
    expect(performance.now() - startedAt).toBeLessThan(5_500);

    const duringTheRestart = queue.publish([makeBatch('restart')]).catch(() => 'rejected');
    await startOwnRedis({ dir, port: redis.port });
    await duringTheRestart;
    await eventually(async () => expect(await durable()).toBe(false));
    const offeredAgain = [makeBatch('during'), makeBatch('restart')];
    await queue.publish(offeredAgain);
    await eventually(() => expect(handled).toEqual(expect.arrayContaining(offeredAgain)));
    expect(await durable()).toBe(true);
    expect(lines.length).toBeLessThan(20);
  });

  test.each(['idle', 'busy'])('does not keep an %s queue from closing in time', async (state) => {
    const redis = await startOwnRedis();
    const queue = await openTestQueue({ redisUrl: redis.url });
    let started = false;
    queue.startWorker(
      () => {
        started = true;
        return new Promise(() => {});
      },
      { concurrency: 1 },
    );
    if (state === 'busy') {
      await queue.publish([makeBatch('a')]);
      await eventually(() => expect(started).toBe(true));
    }
    await redis.kill();
    const startedAt = performance.now();
    await queue.close({ deadlineMs: 1_000 });
    expect(performance.now() - startedAt).toBeLessThan(1_300);
  });
});

test('a store that ends every connection stops neither publishing nor a worker', async () => {
  const { storeUrl } = await createDatabases('queue_ended');
  const queue = await openTestQueue({ storeUrl });
  const durable = queue.createDurable();
  const { handled, handle } = recorder();
  queue.startWorker(handle, { concurrency: 2 });
  await queue.publish([makeBatch('a')]);
  await eventually(() => expect(handled).toHaveLength(1));
  await runSql(
    storeUrl,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()`,
  );
  await queue.publish([makeBatch('b')]);
  // the first comes again where its end was not on record yet
  await eventually(() => expect(new Set(handled.map(({ id }) => id))).toEqual(new Set(['a', 'b'])));
  expect(await durable()).toBe(true);
});

test('a Redis without memory is not asked thousands of times a second, and work goes on when there is some again', async () => {
  const { url } = await startOwnRedis();
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const queue = await openTestQueue({ redisUrl: url }, { log, tuning: { addTimeoutMs: 1_500 } });
  const { handled, handle } = recorder();
  await queue.publish([makeBatch('a')]);
  await runRedis(url, (client) => client.config('SET', 'maxmemory', '1'));
  queue.startWorker(handle, { concurrency: 2 });
  await expect(queue.publish([makeBatch('b')])).rejects.toThrow('OOM');
  await runRedis(url, async (client) => {
    const calls = Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1]);
    expect(calls).toBeLessThan(500);
    await client.config('SET', 'maxmemory', '0');
  });
  await eventually(() => expect(handled).toEqual([makeBatch('a')]));
  expect(lines.length).toBeLessThan(10);
});

test('a worker that takes nothing while jobs wait is replaced', async () => {
  const { url } = await startOwnRedis();
  const prefix = newPrefix();
  const queue = await openTestQueue(
    { redisUrl: url },
    { prefix, tuning: { idleSeconds: 3_600, stuckMs: 2_000 } },
  );
  const { handled, handle } = recorder();
  queue.startWorker(handle, { concurrency: 1 });
  await queue.publish([makeBatch('first')]);
  await eventually(() => expect(handled).toHaveLength(1));
  // A job that nobody was woken for: what a lost wake-up, or a connection that is dead without saying so, leaves behind.
  await runRedis(url, async (client) => {
    await client.hset(`${prefix}:live:meta`, 'paused', '1');
    await queue.publish([makeBatch('second')]);
    await client.hdel(`${prefix}:live:meta`, 'paused');
  });
  await eventually(() => expect(handled.map(({ id }) => id)).toEqual(['first', 'second']));
});

function ownDir(): string {
  const dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function startOwnRedis(options: Partial<RedisOptions> = {}): Promise<LocalRedis> {
  return startRedis({ dir: mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`)), ...options });
}

async function runRedis<T>(url: string, body: (client: Redis) => Promise<T>): Promise<void> {
  const client = new Redis(url);
  await body(client).finally(() => client.disconnect());
}

async function runSql(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
