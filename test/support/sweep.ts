import { expect, onTestFinished } from 'vitest';
import type { Batch } from '../../src/change/batch.ts';
import { createPool } from '../../src/db/pool.ts';
import { createLeader } from '../../src/sweep/sweep.ts';
import type { Leader } from '../../src/sweep/sweep.ts';
import { logSettings } from '../../src/pipeline/connections.ts';
import { takeLead } from '../../src/sweep/marks.ts';
import { defaultTuning } from '../../src/sweep/tuning.ts';
import type { SweepTuning } from '../../src/sweep/tuning.ts';
import { eventually } from './eventually.ts';
import type { Install } from './install.ts';
import { silentLog } from './store.ts';

export interface SweepUnderTest extends Leader {
  /** What it put on the queue. */
  readonly batches: Batch[];
  /** What it is told of the queue. */
  readonly queue: { waiting: number; epoch: string };
  /** Gives up the lead. */
  leave(): Promise<void>;
}

/** The leader of a sweep, moved by hand, with a queue that only remembers. */
export async function createSweep(
  install: Install,
  tuning: Partial<SweepTuning> = {},
  role?: string,
): Promise<SweepUnderTest> {
  const { config } = install;
  const source = createPool({
    url: config.source.url,
    applicationName: 'emend sweep',
    max: 1,
    settings: { ...logSettings, ...(role === undefined ? {} : { role }) },
  });
  const store = await install.store.connect();
  let left: Promise<void> | undefined;
  const leave = (): Promise<void> => {
    if (!left) store.release(true);
    return (left ??= source.end());
  };
  onTestFinished(leave);
  // the one before gives it back when its session is over
  await eventually(async () => expect(await takeLead(store)).toBe(true));
  const batches: Batch[] = [];
  const queue = { waiting: 0, epoch: 'one' };
  const leader = createLeader(
    {
      source,
      store,
      targets: config.targets.map(({ name }) => name),
      ...config.capture,
      queue: {
        publish: async (published) => void batches.push(...published),
        counts: async () => ({ waiting: queue.waiting, active: 0, delayed: 0, failed: 0 }),
        epoch: async () => queue.epoch,
      },
      // every tick is a round
      tuning: { ...defaultTuning, roundMs: 0, graceMs: 0, ...tuning },
      signal: new AbortController().signal,
    },
    silentLog,
  );
  return { ...leader, batches, queue, leave };
}
