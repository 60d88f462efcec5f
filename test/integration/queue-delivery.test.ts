import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { QueueHome } from '../../src/queue/home.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually, holds } from '../support/eventually.ts';
import { makeBatch, newPrefix, openTestQueue, recorder } from '../support/queue.ts';

const quick = { lockMs: 1_500, stalledCheckMs: 400, firstRetryMs: 20, lastRetryMs: 100 };

describe.each(['redis', 'postgres'] as const)('a queue in %s', (kind) => {
  let home: QueueHome;
  beforeAll(async () => {
    const { redisUrl, storeUrl } = await createDatabases('queue_delivery');
    home = kind === 'redis' ? { redisUrl } : { storeUrl };
  });

  test('hands over every batch, with every value as it was', async () => {
    const queue = await openTestQueue(home);
    const { handled, handle } = recorder();
    const batches = Array.from({ length: 30 }, (_, n) => makeBatch(`batch-${n}`, n + 1));
    await queue.publish(batches.slice(0, 10));
    queue.startWorker(handle, { concurrency: 3 });
    await queue.publish(batches.slice(10, 11));
    await queue.publish(batches.slice(11));
    await eventually(() => {
      for (const batch of batches) expect(handled).toContainEqual(batch);
    });
    await eventually(async () => {
      expect(await queue.counts()).toEqual({ waiting: 0, active: 0, delayed: 0, failed: 0 });
    });
    expect(queue.kind).toBe(kind);
  });

  test('keeps one job of a batch that was published twice while it waits', async () => {
    const queue = await openTestQueue(home);
    await queue.publish([makeBatch('a'), makeBatch('b')]);
    await queue.publish([makeBatch('b'), makeBatch('c'), makeBatch('a')]);
    await queue.publish([makeBatch('a')]);
    expect(await queue.counts()).toMatchObject({ waiting: 3 });
  });

  test('hands over small batches before large ones that came earlier, and each kind in its order', async () => {
    const queue = await openTestQueue(home);
    const { handled, handle } = recorder();
    await queue.publish([makeBatch('large-1', 401), makeBatch('large-2', 401)]);
    await queue.publish([makeBatch('small-1', 400), makeBatch('small-2', 1)]);
    expect(await queue.counts()).toMatchObject({ waiting: 4 });
    queue.startWorker(handle, { concurrency: 1 });
    await eventually(() =>
      expect(handled.map(({ id }) => id)).toEqual(['small-1', 'small-2', 'large-1', 'large-2']),
    );
  });

  test('asks small batches to wait for company only while many wait for a worker', async () => {
    // a bound, without which nobody asks how full the queue is
    const queue = await openTestQueue(home, { maxBytes: 2 ** 40 });
    await queue.publish(Array.from({ length: 20 }, (_, at) => makeBatch(`batch-${at}`)));
    await eventually(() => expect(queue.lingerMs()).toBe(50));
    await sleep(1_500);
    expect(queue.lingerMs(), 'after a time without rows, of which nobody knows').toBe(0);
    await eventually(() => expect(queue.lingerMs()).toBe(50));
    queue.startWorker(() => Promise.reject(new Error('the key is fenced')), { concurrency: 4 });
    await eventually(async () => {
      expect(queue.lingerMs()).toBe(0);
      expect(await queue.counts()).toMatchObject({ waiting: 0, active: 0, delayed: 20 });
    });
  });

  test('accepts a batch again that was handled before', async () => {
    const queue = await openTestQueue(home);
    const { handled, handle } = recorder();
    queue.startWorker(handle, { concurrency: 1 });
    await queue.publish([makeBatch('a')]);
    await eventually(async () => {
      expect(handled).toHaveLength(1);
      expect(await queue.counts()).toMatchObject({ waiting: 0, active: 0 });
    });
    await queue.publish([makeBatch('a')]);
    await eventually(() => expect(handled).toHaveLength(2));
  });

  test('hands a batch over again until its handler succeeds, and goes on with others meanwhile', async () => {
    const queue = await openTestQueue(home, { tuning: quick });
    const tries: string[] = [];
    queue.startWorker(
      async (batch) => {
        tries.push(batch.id);
        if (batch.id === 'bad' && tries.filter((id) => id === 'bad').length < 4)
          throw new Error('the store is away');
      },
      { concurrency: 1 },
    );
    await queue.publish([makeBatch('bad'), makeBatch('good')]);
    await eventually(async () => {
      expect(tries.filter((id) => id === 'bad')).toHaveLength(4);
      expect(tries.filter((id) => id === 'good')).toHaveLength(1);
      expect(await queue.counts()).toEqual({ waiting: 0, active: 0, delayed: 0, failed: 0 });
    });
  });

  test('keeps the text of an error out of the log and the queue', async () => {
    const lines: string[] = [];
    const { pino } = await import('pino');
    const log = pino({}, { write: (line: string) => void lines.push(line) });
    const queue = await openTestQueue(home, { log, tuning: quick });
    let tries = 0;
    queue.startWorker(
      async () => {
        tries += 1;
        if (tries === 1)
          throw Object.assign(new Error('invalid input "secret value"'), { code: '22P02', detail: 'secret' });
      },
      { concurrency: 1 },
    );
    await queue.publish([makeBatch('a')]);
    await eventually(() => expect(tries).toBe(2));
    expect(lines.join('')).toContain('22P02');
    expect(lines.join('')).not.toContain('secret');
  });

  test('does not show one install the jobs of another', async () => {
    const [mine, others] = [await openTestQueue(home), await openTestQueue(home)];
    const { handled, handle } = recorder();
    mine.startWorker(handle, { concurrency: 1 });
    await others.publish([makeBatch('theirs')]);
    await mine.publish([makeBatch('mine')]);
    await eventually(() => expect(handled.map(({ id }) => id)).toEqual(['mine']));
    await holds(() => expect(handled).toHaveLength(1));
    expect(await others.counts()).toMatchObject({ waiting: 1 });
    expect(await mine.epoch()).not.toBe(await others.epoch());
  });

  test('gives the job of a worker killed with -9 to another one', async () => {
    const prefix = newPrefix();
    const queue = await openTestQueue(home, { prefix, tuning: quick });
    await queue.publish([makeBatch('a')]);
    const child = startChild(home, prefix);
    const [message] = await once(child, 'message');
    expect(message).toBe('a');
    child.kill('SIGKILL');
    await once(child, 'exit');
    const { handled, handle } = recorder();
    queue.startWorker(handle, { concurrency: 1 });
    await eventually(() => expect(handled).toEqual([makeBatch('a')]));
  });

  test('ends in time with a handler that does not listen, and the job is done by another worker', async () => {
    const prefix = newPrefix();
    const stubborn = await openTestQueue(home, { prefix, tuning: quick });
    let aborted = false;
    let started = false;
    stubborn.startWorker(
      (_batch, signal) =>
        new Promise(() => {
          started = true;
          signal.addEventListener('abort', () => (aborted = true));
        }),
      { concurrency: 1 },
    );
    await stubborn.publish([makeBatch('a')]);
    await eventually(() => expect(started).toBe(true));
    const startedAt = performance.now();
    await stubborn.close({ deadlineMs: 1_000 });
    expect(performance.now() - startedAt).toBeLessThan(1_300);
    expect(aborted).toBe(true);
    const other = await openTestQueue(home, { prefix, tuning: quick });
    const { handled, handle } = recorder();
    other.startWorker(handle, { concurrency: 1 });
    await eventually(() => expect(handled).toHaveLength(1));
  });

  test('finishes the job at work before it ends, and leaves the others waiting', async () => {
    const prefix = newPrefix();
    const queue = await openTestQueue(home, { prefix });
    let finish: () => void = () => {};
    const { handled, handle } = recorder();
    queue.startWorker(
      async (batch) => {
        await new Promise<void>((resolve) => (finish = resolve));
        await handle(batch);
      },
      { concurrency: 1 },
    );
    const before = finish;
    await queue.publish([makeBatch('a'), makeBatch('b')]);
    await eventually(() => expect(finish).not.toBe(before));
    const closed = queue.close({ deadlineMs: 5_000 });
    finish();
    await closed;
    expect(handled.map(({ id }) => id)).toEqual(['a']);
    const again = await openTestQueue(home, { prefix });
    expect(await again.counts()).toMatchObject({ waiting: 1, active: 0 });
  });
});

function startChild(home: QueueHome, prefix: string): ChildProcess {
  const task = JSON.stringify({ home, prefix, tuning: quick });
  const program = ['node_modules/jiti/lib/jiti-cli.mjs', 'test/support/queue-worker.ts', task];
  const child = spawn(process.execPath, program, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}
