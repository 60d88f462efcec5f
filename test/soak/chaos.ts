import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../../bench/harness/random.ts';
import { query } from '../support/query.ts';
import type { Processes } from '../faults/processes.ts';
import type { Servers } from '../faults/servers.ts';

interface Chaos {
  readonly servers: Servers;
  readonly processes: Processes;
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly random: Random;
  readonly signal: AbortSignal;
  /** From then on one reader and one worker are let live, so that what they hold can be watched. */
  readonly sparesFromMs: number;
  readonly done: Record<string, number>;
}

const betweenMs = [4_000, 12_000] as const;

/** One thing after the other goes wrong, at random, until the end. */
export async function runChaos(chaos: Chaos): Promise<void> {
  const { random, signal, done } = chaos;
  const startedAt = performance.now();
  for (;;) {
    await sleep(betweenMs[0] + random.below(betweenMs[1] - betweenMs[0]), undefined, { signal }).catch(
      () => undefined,
    );
    if (signal.aborted) return;
    const faults = faultsOf(chaos, performance.now() - startedAt >= chaos.sparesFromMs);
    const [name, apply] = faults[random.below(faults.length)]!;
    done[name] = (done[name] ?? 0) + 1;
    await apply();
  }
}

function faultsOf(
  { servers, processes, sourceUrl, storeUrl, random }: Chaos,
  spares: boolean,
): [name: string, apply: () => void | Promise<void>][] {
  const { workers, readers } = processes;
  const victims = spares ? workers.slice(1) : workers;
  const faults: [string, () => void | Promise<void>][] = [
    [
      'kill -9 of a worker',
      () => processes.kill(victims[random.below(victims.length)]!, random.below(2_000)),
    ],
    ['kill -9 of Redis', () => servers.redis.kill(random.below(2_000), { keepsData: true })],
    ['Redis lost its data', () => servers.redis.kill(0, { keepsData: false })],
    ['FLUSHALL', () => servers.redis.flushAll()],
    ['connections of the source cut', () => cut(sourceUrl)],
    ['connections of the store cut', () => cut(storeUrl)],
  ];
  if (!spares)
    faults.push([
      'kill -9 of a reader',
      () => processes.kill(readers[random.below(readers.length)]!, random.below(2_000)),
    ]);
  return faults;
}

async function cut(url: string): Promise<void> {
  await query(
    url,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name ^@ 'emend'`,
  );
}
