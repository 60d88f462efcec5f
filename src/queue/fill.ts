import type { Broker } from './broker.ts';
import { answerOf } from './deadline.ts';

/** How full the queue is. */
export interface Fill {
  /** Above three quarters of its bound, and from then on until it has drained below half. */
  isFull(): boolean;
  /** How long it asks small batches to wait for company, ms: each job has a weight of its own. */
  lingerMs(): number;
  /** So much was put on the queue. */
  add(bytes: number): void;
}

interface JobCounts {
  /** In any state. */
  readonly all: number;
  /** For a worker. */
  readonly waiting: number;
}

interface FillOptions {
  readonly broker: Broker;
  /** Jobs of the lane. */
  readonly countJobs: () => Promise<JobCounts>;
  readonly maxBytes: number;
  readonly timeoutMs: number;
}

/** The last quarter is for references, and for what is put on the queue between two answers. */
const fullAbove = 0.75;
const drainedBelow = 0.5;

/** Five jobs a second, or full ones, are no weight while it drains; one each ten seconds is none while nobody takes any. */
const fullLingerMs = 200;
const overfullLingerMs = 10_000;

/**
 * While so many jobs wait for a worker, one more would be merged no sooner for being sent at once; and small ones are what keeps
 * workers behind (docs/performance.md, *Scaling*). Those that are to be tried again later keep nobody waiting.
 */
const busyJobs = 16;
const busyLingerMs = 50;

const askEveryMs = 250;
/** So long after it ought to have been asked again nobody did, since no rows came: what waited then says nothing of the next one. */
const staleAfterMs = 1_000;
/** A server that takes long to answer is not asked all the time. */
const restPerAsk = 20;

/**
 * The server is asked at most four times a second, beside the work, and what was put on the queue since is added to its answer. What a
 * Redis held when this queue was last empty belongs to others, and is taken off.
 */
export function createFill({ broker, countJobs, maxBytes, timeoutMs }: FillOptions): Fill {
  let [answered, since, ofOthers] = [0, 0, 0];
  let jobsWaiting = 0;
  let bound = maxBytes;
  let isFull = false;
  let dueAt = 0;
  let asking = false;

  async function ask(): Promise<void> {
    asking = true;
    const startedAt = performance.now();
    const sinceBefore = since;
    try {
      const [jobs, use] = await answerOf(
        timeoutMs,
        Promise.all([countJobs(), broker.readUse()]),
        'asking how full the queue is',
      );
      jobsWaiting = jobs.waiting;
      ofOthers = jobs.all === 0 ? use.bytes : Math.min(ofOthers, use.bytes);
      answered = use.bytes - ofOthers;
      bound = Math.min(maxBytes, use.limit === null ? maxBytes : Math.max(0, use.limit - ofOthers));
      since -= sinceBefore;
    } catch {
      // whoever puts something on a queue that is away hears of it there
    } finally {
      const now = performance.now();
      dueAt = now + Math.max(askEveryMs, restPerAsk * (now - startedAt));
      asking = false;
    }
  }

  function bytes(): number {
    if (!asking && performance.now() >= dueAt) void ask();
    return answered + since;
  }

  function look(): boolean {
    if (bytes() > fullAbove * bound) isFull = true;
    else if (bytes() < drainedBelow * bound) isFull = false;
    return isFull;
  }

  function isBusy(): boolean {
    return jobsWaiting >= busyJobs && performance.now() < dueAt + staleAfterMs;
  }

  return {
    isFull: look,
    lingerMs() {
      if (!look()) return isBusy() ? busyLingerMs : 0;
      return bytes() > bound ? overfullLingerMs : fullLingerMs;
    },
    add(added) {
      since += added;
    },
  };
}
