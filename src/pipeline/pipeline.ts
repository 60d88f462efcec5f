/**
 * The data path, from a row in a log to a row in a target:
 *
 *   corrections.<target> --WAL--> capture --publish--> queue --handle--> merge --> target, history, ledger
 *            ^                                  ^                                               |
 *            +------------------------------- sweep: rows that are not in the ledger -----------+
 *
 * Role: wires the stages, which do not know each other, by the functions of `change/ports.ts`, and ends them in an order in
 * which nothing has to be done twice.
 * Promise: whatever dies at whatever moment, what was committed in a log is merged once everything runs again.
 * If it breaks: rows wait in the log without anybody noticing, or a shutdown takes until it is killed.
 */
import type { Pool } from 'pg';
import type { Logger } from 'pino';
import { startRequestSweep } from '../backfill/request-sweep.ts';
import { createCapture } from '../capture/capture.ts';
import type { LogRows } from '../change/batch.ts';
import type { Handle, HandleQueued } from '../change/ports.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { EmendError } from '../errors.ts';
import { mergeSessions, mergeSettings } from '../merge/merge.ts';
import { openQueue } from '../queue/queue.ts';
import type { Tuning } from '../queue/tuning.ts';
import { startClock } from '../store/clock.ts';
import { askForSweep } from '../sweep/marks.ts';
import { startSweep } from '../sweep/sweep.ts';
import type { SweepTuning } from '../sweep/tuning.ts';
import { handleRequests, publishByLane, toJobs } from './backfill-work.ts';
import { createLogPool, createSweepSource, openStore } from './connections.ts';
import { startCutReport } from './cut-report.ts';
import { requireInstall } from './install.ts';
import { createLiveMerge } from './live-merge.ts';
import { queueHome, queuePrefix } from './install-queue.ts';
import { withRowsOfLog } from './referred-rows.ts';
import { readersOf } from './readers.ts';
import { createShutdown } from './shutdown.ts';
import type { Shutdown } from './shutdown.ts';

export type Role = 'reader' | 'worker';

export interface PipelineOptions {
  readonly config: ResolvedConfig;
  readonly roles: readonly Role[];
  readonly log: Logger;
  /** The only share of the log that its reader reads; left out: all of them, each as soon as no other reader has it. */
  readonly share?: number | undefined;
  /** Times of the queue and of the sweep; tests shorten them. */
  readonly queueTuning?: Partial<Tuning>;
  readonly sweepTuning?: Partial<SweepTuning>;
}

export interface Pipeline {
  /** Rejects when a stage cannot go on until a human acts. What may pass by itself is tried again for ever. */
  readonly ended: Promise<never>;
  /** Ends everything, within 10 seconds. */
  stop(): Promise<void>;
}

/** @throws EmendError when it cannot start as configured; then nothing is left running */
export async function startPipeline(options: PipelineOptions): Promise<Pipeline> {
  const { log, config } = options;
  const shutdown = createShutdown(log);
  try {
    const run = await startStages(options, shutdown);
    log.info({ targets: config.targets.map(({ name }) => name) }, 'emend is running');
    const ended = run();
    // told to whoever asks; a program that embeds the pipeline and does not ask must not die of it
    ended.catch(() => undefined);
    return { ended, stop: () => shutdown.run() };
  } catch (error) {
    await shutdown.run();
    throw error;
  }
}

/** One for the clock, one for the sweep, one to look things up, beside one for each merge. */
const spareConnections = 3;

/** Of a backfill: its lock, its transaction, a reader beside that, and the sweep of requests. */
const backfillConnections = 4;

/** Below the lock that a worker has on its job: a merge that hangs must be over before another worker gets the job. */
const statementTimeoutMs = 25_000;

/**
 * The stages start against the flow of the data, so that each finds the next one running, and end with it: no new rows
 * from the source, then what is at work, then the connections.
 */
async function startStages(
  { config, roles, log, share, queueTuning = {}, sweepTuning = {} }: PipelineOptions,
  shutdown: Shutdown,
): Promise<() => Promise<never>> {
  if (share !== undefined) refuseUnknown(share, config);
  const role = roles.join('+');
  const max = config.merge.concurrency + spareConnections;
  const store = await openStore(config, { role, max, statementTimeoutMs, ...mergeSessions });
  shutdown.push({ name: 'store', limitMs: 300, end: () => store.end() });
  const install = await requireInstall(store);

  // before the queue, so that they end after the jobs that use them
  const backfillServers = roles.includes('worker') ? await openBackfillServers(config, shutdown) : undefined;
  // connects when the first batch comes by reference
  const logs = createLogPool(config, { role, max: config.merge.concurrency });
  shutdown.push({ name: 'logs', limitMs: 300, end: () => logs.end() });

  const prefix = queuePrefix(config, install);
  const { maxBytes } = config.queue;
  const queue = await openQueue(queueHome(config), {
    prefix,
    role,
    log,
    maxBytes,
    mayStall: true,
    tuning: queueTuning,
  });
  shutdown.push({ name: 'queue', limitMs: 5_000, end: () => queue.close({ deadlineMs: 4_500 }) });

  if (backfillServers) {
    const merge = await createLiveMerge(config, store, log);
    const clock = startClock(store, log);
    shutdown.push({ name: 'clock', limitMs: 300, end: () => clock.stop() });
    const withRows = (handle: Handle): HandleQueued => withRowsOfLog({ source: logs, log }, handle);
    queue.startWorker(withRows(merge), { concurrency: config.merge.concurrency });
    const source = createSweepSource(config);
    const requests = withRows(handleRequests(config, backfillServers));
    queue.startWorker(requests, { lane: 'backfill', concurrency: 1 });
    const publish = (rows: LogRows): Promise<void> => queue.publishRequests(toJobs(rows));
    const requestSweep = startRequestSweep({
      ...backfillServers,
      publish,
      log,
      promoteTimes: config.promote,
    });
    shutdown.push({ name: 'sweep of requests', limitMs: 400, end: () => requestSweep.stop() });
    const sweep = startSweep({
      source,
      store,
      queue,
      targets: config.targets.map(({ name }) => name),
      ...config.capture,
      tuning: sweepTuning,
      log,
    });
    const endSweep = async (): Promise<void> => {
      await sweep.stop();
      await source.end();
    };
    shutdown.push({ name: 'sweep', limitMs: 400, end: endSweep });
  }
  if (!roles.includes('reader')) return () => new Promise<never>(() => {});

  const readers = readersOf(install, {
    readers: config.capture.readers,
    targets: config.targets.map(({ name }) => name),
  });
  const captures = readers
    .filter(({ share: { number } }) => share === undefined || share === number)
    .map(({ slot, publication, logs: targets }) =>
      createCapture({
        url: config.source.replicationUrl,
        slot,
        publication,
        targets,
        ...config.capture,
        publish: publishByLane(queue),
        durable: queue.createDurable(),
        queueLingerMs: () => queue.lingerMs(),
        passedOver: ({ isOlderSource }) => askForSweep(store, { all: isOlderSource }),
        log,
      }),
    );
  const cut = (): number => captures.reduce((sum, each) => sum + each.status().transactionsCut, 0);
  const cutReport = startCutReport(store, cut, log);
  shutdown.push({ name: 'report of cut transactions', limitMs: 300, end: () => cutReport.stop() });
  const stop = async (): Promise<void> => void (await Promise.all(captures.map((each) => each.stop())));
  shutdown.push({ name: 'capture', limitMs: 3_000, end: stop });
  return () => Promise.all(captures.map((each) => each.run())).then(() => new Promise<never>(() => {}));
}

function refuseUnknown(share: number, { capture: { readers } }: ResolvedConfig): void {
  if (share <= readers) return;
  throw new EmendError('bad_arguments', `there is no share ${share}: capture.readers is ${readers}`, {
    remedy: `Give a number from 1 to ${readers}, or raise capture.readers and run emend migrate.`,
  });
}

async function openBackfillServers(
  config: ResolvedConfig,
  shutdown: Shutdown,
): Promise<{ source: Pool; store: Pool }> {
  const source = createSweepSource(config);
  shutdown.push({ name: 'source of backfills', limitMs: 300, end: () => source.end() });
  // not `mergeSessions`: rows are staged by COPY, which takes no pipelined session
  const store = await openStore(config, {
    role: 'backfill',
    max: backfillConnections,
    settings: mergeSettings,
  });
  shutdown.push({ name: 'store of backfills', limitMs: 300, end: () => store.end() });
  return { source, store };
}
