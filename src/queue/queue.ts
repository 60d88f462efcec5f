/**
 * The queue between capture and merge: batches wait here as BullMQ jobs, in Redis or in the store's own Postgres.
 *
 * Role: hand every published batch to some worker, soon, at least once.
 * Promise: `publish` resolves only after the queue has accepted every batch, and `createDurable` tells whether the queue that
 * accepted them is still the same one.
 * If that is broken: capture confirms WAL whose rows are nowhere but in the log, and they arrive late, by the sweep.
 * Nothing here decides correctness: a job may be lost, doubled or handed to two workers at once. The ledger is the truth.
 */
import type { Durable, HandleQueued, Log, Publish } from '../change/ports.ts';
import { EmendError } from '../errors.ts';
import type { Broker, Lane } from './broker.ts';
import { inspectQueue } from './checks.ts';
import { answerOf, within } from './deadline.ts';
import { createEpoch } from './epoch.ts';
import { createErrorLog } from './error-log.ts';
import { createFill } from './fill.ts';
import { addressOf, type QueueHome } from './home.ts';
import { codeOfState } from './inspection.ts';
import { openPostgresBroker } from './postgres-broker.ts';
import { createPublish } from './publish.ts';
import { openRedisBroker } from './redis-broker.ts';
import { defaultTuning, type Tuning } from './tuning.ts';
import { startWorker, type QueueWorker, type WorkerOptions } from './worker.ts';

export interface Queue {
  readonly kind: 'redis' | 'postgres';
  /** Of live corrections. While the queue is full, it is given where their rows are instead of the rows. */
  readonly publish: Publish;
  /** How long small batches should wait for company, ms. More than 0 while it is full. */
  lingerMs(): number;
  /** Of requests of backfills: they wait beside live corrections, and never in front of them. */
  readonly publishRequests: Publish;
  /**
   * True: everything accepted so far is still held by the queue that accepted it. False, once: the queue was emptied or
   * exchanged in between; offer again everything since the last confirmed position (under ids of the new epoch). Each publisher
   * asks by one of its own, or one would be told what another has lost.
   */
  createDurable(): Durable;
  startWorker(handle: HandleQueued, options: WorkerOptions & { readonly lane?: Lane }): QueueWorker;
  /** Of the live lane. */
  counts(): Promise<QueueCounts>;
  /** The epoch that the queue holds now: a new one means that it was emptied or exchanged. */
  epoch(): Promise<string>;
  /** Returns within the deadline, whether or not the queue's server answers. */
  close(options: { deadlineMs: number }): Promise<void>;
}

export interface QueueCounts {
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
  readonly failed: number;
}

export interface QueueOptions {
  /** Tells the queues of several installs on one server apart: `{emend-<install id>}`. */
  readonly prefix: string;
  readonly log: Log;
  /** Shown in the server's list of connections: `worker`, `reader`. */
  readonly role: string;
  /** Bytes that the live lane may hold. */
  readonly maxBytes?: number;
  /** A server that takes no writes just now is opened too: what is published waits for it. */
  readonly mayStall?: boolean;
  readonly tuning?: Partial<Tuning>;
}

/** @throws EmendError `queue_unavailable`, `queue_stalled` or `queue_unsuitable`, with every problem found. */
export async function openQueue(home: QueueHome, options: QueueOptions): Promise<Queue> {
  const { log } = options;
  const tuning = { ...defaultTuning, ...options.tuning };
  const isStalled = await refuseUnfit(home, options);
  const errors = createErrorLog(log, 'the queue reports an error', { address: addressOf(home) });
  const broker = await openBroker(home, { prefix: options.prefix, role: options.role, errors });
  const lanes = { live: broker.openQueue('live'), backfill: broker.openQueue('backfill') };
  for (const bull of Object.values(lanes)) bull.on('error', (error) => errors.report(error));
  const epoch = createEpoch(broker, tuning.addTimeoutMs);
  try {
    if (!isStalled) await epoch.known();
  } catch (error) {
    broker.cut();
    throw error;
  }
  const fill = createFill({
    broker,
    countJobs,
    maxBytes: options.maxBytes ?? Infinity,
    timeoutMs: tuning.addTimeoutMs,
  });
  const workers: QueueWorker[] = [];
  let closed: Promise<void> | undefined;

  async function countsOf(lane: Lane): Promise<QueueCounts> {
    const counting = lanes[lane].getJobCounts('waiting', 'prioritized', 'active', 'delayed', 'failed');
    const {
      waiting = 0,
      prioritized = 0,
      active = 0,
      delayed = 0,
      failed = 0,
    } = await answerOf(tuning.addTimeoutMs, counting, 'counting the jobs of the queue');
    return { waiting: waiting + prioritized, active, delayed, failed };
  }

  async function countJobs(): Promise<{ all: number; waiting: number }> {
    const { waiting, active, delayed, failed } = await countsOf('live');
    return { all: waiting + active + delayed + failed, waiting };
  }

  /** Jobs that a worker ought to take: somebody may have paused the queue on purpose. */
  async function hasWaiting(lane: Lane): Promise<boolean> {
    if ((await countsOf(lane)).waiting === 0) return false;
    return !(await answerOf(
      tuning.addTimeoutMs,
      lanes[lane].isPaused(),
      'asking whether the queue is paused',
    ));
  }

  async function close({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    const endAt = Date.now() + deadlineMs;
    // What is left is for the good-bye to the server.
    await Promise.all(workers.map((worker) => worker.close({ deadlineMs: deadlineMs * 0.9 })));
    const goodBye = Promise.all(Object.values(lanes).map((bull) => bull.close())).then(() => broker.close());
    await within(Math.max(endAt - Date.now(), 0), goodBye, 'closing the queue').catch(() => {});
    broker.cut();
  }

  return {
    kind: broker.kind,
    publish: createPublish({ broker, bull: lanes.live, epoch, tuning, fill }),
    lingerMs: () => fill.lingerMs(),
    publishRequests: createPublish({ broker, bull: lanes.backfill, epoch, tuning }),
    createDurable: () => epoch.createWatch(),
    startWorker(handle, { lane = 'live', ...workerOptions }) {
      const worker = startWorker(
        { broker, lane, handle, tuning, log, errors, hasWaiting: () => hasWaiting(lane) },
        workerOptions,
      );
      workers.push(worker);
      return worker;
    },
    counts: () => countsOf('live'),
    epoch: () => epoch.read(),
    close: (closeOptions) => (closed ??= close(closeOptions)),
  };
}

function openBroker(home: QueueHome, options: Parameters<typeof openRedisBroker>[1]): Promise<Broker> {
  return 'redisUrl' in home
    ? openRedisBroker(home.redisUrl, options)
    : openPostgresBroker(home.storeUrl, options);
}

/** Says whether the server is stalled, where the queue is opened all the same. */
async function refuseUnfit(
  home: QueueHome,
  { prefix, mayStall, log }: Pick<QueueOptions, 'prefix' | 'mayStall' | 'log'>,
): Promise<boolean> {
  const { problems, state } = await inspectQueue(home, prefix);
  if (state === 'fit') return false;
  if (state === 'stalled' && mayStall === true) {
    const reasons = problems.map(({ problem, remedy }) => `${problem}. ${remedy}`);
    log.warn(
      { address: addressOf(home), reasons },
      'the queue takes nothing just now: rows wait in the logs until it does',
    );
    return true;
  }
  throw new EmendError(codeOfState[state], `the queue ${standing[state]}`, {
    remedy: 'Do what is said for each; rows wait in the logs meanwhile.',
    problems,
  });
}

const standing = {
  away: 'does not answer',
  stalled: 'takes nothing just now',
  unfit: 'cannot be used as it is',
};
