import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { createLogger } from '../observe/logger.ts';
import type { Queue } from '../queue/queue.ts';
import { askForSweep, isAnswered, takeLead } from '../sweep/marks.ts';
import { createLeader } from '../sweep/sweep.ts';
import type { Leader } from '../sweep/sweep.ts';
import { defaultTuning } from '../sweep/tuning.ts';
import { openStore, openSweepSource } from './connections.ts';
import { withQueue } from './install-queue.ts';
import { requireInstall } from './install.ts';

export interface SweepNowOptions {
  readonly config: ResolvedConfig;
  /** Compare the logs from their beginning, also what is known to be in the ledger. */
  readonly all?: boolean | undefined;
  readonly timeoutMs?: number | undefined;
}

export interface Swept {
  readonly compared: number;
  /** Missing rows that were put on the queue. */
  readonly enqueued: number;
  /** False: more than can be on the queue at a time is missing; the rest follows when workers have merged this. */
  readonly isComplete: boolean;
  /** Targets that were left out: the worker that sweeps does not know them, since it runs with another configuration. */
  readonly leftOut: readonly string[];
  readonly tookMs: number;
}

const defaultTimeoutMs = 300_000;

/**
 * One round of the sweep now: by the process that leads, or, where none does, by this one.
 *
 * @throws EmendError `timed_out`
 */
export async function sweepNow(options: SweepNowOptions): Promise<Swept> {
  const { config } = options;
  const startedAt = performance.now();
  const store = await openStore(config, { role: 'sweep', max: 2 });
  try {
    const install = await requireInstall(store);
    const source = await openSweepSource(config);
    try {
      const swept = await withQueue(config, install, (queue) =>
        withClient(store, (client) => askAndTick(options, { source, client, queue }, startedAt)),
      );
      return { ...swept, tookMs: Math.round(performance.now() - startedAt) };
    } finally {
      await source.end();
    }
  } finally {
    // with the session goes the lead
    await store.end();
  }
}

interface Servers {
  readonly source: Pool;
  readonly client: PoolClient;
  readonly queue: Queue;
}

async function askAndTick(
  { config, all = false, timeoutMs = defaultTimeoutMs }: SweepNowOptions,
  servers: Servers,
  startedAt: number,
): Promise<Omit<Swept, 'tookMs'>> {
  const { client } = servers;
  const askedAt = await askForSweep(client, { all });
  let leader: Leader | undefined;
  while (!(await isAnswered(client, askedAt))) {
    if (performance.now() - startedAt > timeoutMs) throw timedOut();
    leader ??= await lead(config, servers);
    const round = await leader?.tick();
    if (round && !round.goesOn && !round.isComplete) break;
    if (!round) await sleep(100);
  }
  const isComplete = await isAnswered(client, askedAt);
  return { ...(await readCounts(client, config)), isComplete };
}

async function lead(config: ResolvedConfig, { source, client, queue }: Servers): Promise<Leader | undefined> {
  if (!(await takeLead(client))) return undefined;
  const log = createLogger({ level: 'silent' });
  const { signal } = new AbortController();
  return createLeader(
    {
      source,
      store: client,
      queue,
      targets: config.targets.map(({ name }) => name),
      ...config.capture,
      tuning: defaultTuning,
      signal,
    },
    log,
  );
}

async function readCounts(
  client: PoolClient,
  { targets }: ResolvedConfig,
): Promise<Pick<Swept, 'compared' | 'enqueued' | 'leftOut'>> {
  const { rows } = await client.query<{ compared: string; enqueued: string; left_out: string | null }>(
    `select compared::text as compared, enqueued::text as enqueued,
            (select string_agg(name, ',') from unnest($1::text[]) as wanted (name) where name <> all(coalesce(targets, '{}'))) as left_out
     from emend.sweep_round`,
    [targets.map(({ name }) => name)],
  );
  const { compared, enqueued, left_out: leftOut } = rows[0]!;
  return { compared: Number(compared), enqueued: Number(enqueued), leftOut: leftOut?.split(',') ?? [] };
}

function timedOut(): EmendError {
  return new EmendError('timed_out', 'the sweep has not answered yet', {
    remedy: 'See emend status, and the log of the workers; it goes on by itself.',
  });
}
