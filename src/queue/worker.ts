import type { Job } from 'bullmq';
import { decodeBatch } from '../change/codec.ts';
import type { HandleQueued, Log } from '../change/ports.ts';
import { createBreaker } from './breaker.ts';
import type { Broker, Lane, OpenedWorker } from './broker.ts';
import { within } from './deadline.ts';
import { codeOf, createErrorLog, type ErrorLog } from './error-log.ts';
import type { Tuning } from './tuning.ts';

export interface QueueWorker {
  /**
   * Takes no more jobs and waits for those at work. Shortly before the deadline their signals are aborted, at the
   * deadline the connections are cut; a job that did not end is given to another worker.
   */
  close(options: { deadlineMs: number }): Promise<void>;
}

export interface WorkerOptions {
  /** Batches at work at a time. */
  readonly concurrency: number;
  /** Aborted: take no more jobs. Those at work go on until `close` says otherwise. */
  readonly signal?: AbortSignal;
}

interface WorkerParts {
  readonly broker: Broker;
  readonly lane: Lane;
  readonly handle: HandleQueued;
  readonly tuning: Tuning;
  readonly log: Log;
  readonly errors: ErrorLog;
  /** Whether jobs wait that a worker ought to take. */
  readonly hasWaiting: () => Promise<boolean>;
}

export function startWorker(parts: WorkerParts, options: WorkerOptions): QueueWorker {
  const { broker, lane, handle, tuning, log, errors, hasWaiting } = parts;
  const failures = createErrorLog(log, 'a batch was not merged and will be tried again', { lane });
  let atWork = 0;
  let lastMoveAt = Date.now();
  let closed: Promise<void> | undefined;
  let opened = open();

  function open(): OpenedWorker {
    const fresh = broker.openWorker(lane, runJob, {
      concurrency: options.concurrency,
      lockDuration: tuning.lockMs,
      stalledInterval: tuning.stalledCheckMs,
      // A worker that is killed says nothing about the job: deploys and out-of-memory kills must not use it up.
      maxStalledCount: 1_000_000_000,
      drainDelay: tuning.idleSeconds,
      runRetryDelay: 1_000,
      settings: {
        backoffStrategy: (attemptsMade, _type, error) => retryDelayMs(attemptsMade, error?.message, tuning),
      },
    });
    const { worker } = fresh;
    const breaker = createBreaker(worker, log);
    worker.on('error', (error) => {
      errors.report(error);
      breaker.count();
    });
    worker.on('failed', () => breaker.count());
    // Another worker may have the job by now: two at once are harmless, but one of them is wasted.
    worker.on('lockRenewalFailed', (ids) =>
      ids.forEach((id) => worker.cancelJob(id, 'the lock of the job was lost')),
    );
    return fresh;
  }

  // BullMQ hands in the signal only to a function of three parameters.
  async function runJob(job: Job, _token?: string, signal?: AbortSignal): Promise<void> {
    atWork += 1;
    lastMoveAt = Date.now();
    try {
      await handle(decodeBatch(job.data), signal ?? new AbortController().signal);
    } catch (error) {
      failures.report(error, { job: job.id, attempt: job.attemptsStarted });
      // BullMQ stores the message of what is thrown; the original one may quote row values.
      throw new Error(codeOf(error));
    } finally {
      atWork -= 1;
      lastMoveAt = Date.now();
    }
  }

  async function replaceWhenStuck(): Promise<void> {
    const idleMs = Date.now() - lastMoveAt;
    if (closed || idleMs < tuning.stuckMs || atWork >= options.concurrency) return;
    if (!(await hasWaiting().catch(() => false)) || closed) return;
    log.warn({ idleMs }, 'jobs wait and the worker takes none: it is replaced');
    const stuck = opened;
    lastMoveAt = Date.now();
    opened = open();
    void stuck.worker.close(true).catch((error: unknown) => errors.report(error));
    stuck.cut();
  }

  const watchdog = setInterval(() => void replaceWhenStuck(), tuning.stuckMs / 4);
  watchdog.unref();

  function stop(): Promise<void> {
    clearInterval(watchdog);
    closed ??= opened.worker.close().catch((error: unknown) => errors.report(error));
    return closed;
  }

  async function close({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    const patienceMs = deadlineMs * 0.8;
    const stopped = stop();
    try {
      await within(patienceMs, stopped, 'ending the jobs at work');
    } catch {
      opened.worker.cancelAllJobs('shutting down');
      await within(deadlineMs - patienceMs, stopped, 'ending the jobs at work').catch(() => {});
    }
    opened.cut();
  }

  options.signal?.addEventListener('abort', () => void stop(), { once: true });
  return { close };
}

/** A promote that is in the way ends by itself: whoever waits for it looks often. */
const lastFencedRetryMs = 1_000;

/** 100 ms, 200 ms, … up to the longest, each up to half shorter by chance so that failed jobs do not return as one. */
function retryDelayMs(
  attemptsMade: number,
  code: string | undefined,
  { firstRetryMs, lastRetryMs }: Tuning,
): number {
  const bound = code === 'key_fenced' ? Math.min(lastFencedRetryMs, lastRetryMs) : lastRetryMs;
  const longest = Math.min(firstRetryMs * 2 ** Math.min(attemptsMade - 1, 20), bound);
  return Math.round(longest * (0.5 + Math.random() / 2));
}
