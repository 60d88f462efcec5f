import type { SourceNow } from './log-pages.ts';

/** The horizons of the last rounds, and when they were read. Times are of this process's monotonic clock. */
export interface Horizons {
  add(now: Pick<SourceNow, 'horizon' | 'next'>, at: number): void;
  /** The latest horizon that was read at this time or before. */
  asOf(at: number): bigint | undefined;
  /** What was committed up to this time is below `xid`; undefined when that is not known of any time. */
  completeAt(xid: bigint): number | undefined;
}

/** Half an hour of rounds; in the middle of more, every single one matters little. */
const kept = 1_000;

export function createHorizons(): Horizons {
  const seen: { horizon: bigint; next: bigint; at: number }[] = [];
  return {
    add({ horizon, next }, at) {
      seen.push({ horizon, next, at });
      if (seen.length > kept) seen.splice(kept / 2, 1);
    },
    asOf: (at) => seen.findLast((each) => each.at <= at)?.horizon,
    // what had been committed by then is below `next`
    completeAt: (xid) => seen.findLast(({ next }) => next <= xid)?.at,
  };
}
