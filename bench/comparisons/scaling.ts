import { paymentStream } from '../data/stream.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import { drain } from '../pipelines/drain.ts';

const workers = (count: number) => (count === 1 ? 'one worker process' : `${count} worker processes`);
const reader = 'one worker process: CPU of the reader';

/**
 * A queue that was filled before, and workers that empty it: neither the writer nor the reader is in the way. Each merges one
 * job at a time, and has so many that its start, with code that is not compiled yet, is a small part of it. What the store's server can do bounds them all: on two cores, it and two workers have to share these.
 */
export const scaling: Comparison = {
  name: 'scaling',
  title:
    'Facts of new keys in transactions of 10, from the queue to the store: worker processes of one job at a time',
  measure: (servers, { quick }) => {
    const rows = quick ? 500 : 900_000;
    const stream = paymentStream('inserts', 0);
    return measure(servers, {
      warmUp: 0,
      rounds: quick ? 1 : 2,
      contestants: (quick ? [1, 2] : [1, 2, 4]).map((count) => drain(workers(count), stream, count)),
      work: (round) => ({ first: round * rows + 1, last: (round + 1) * rows, perTransaction: 10 }),
    });
  },
  ratios: [
    { of: workers(2), to: workers(1), atMost: 1 / 1.4 },
    // never fewer rows with more of them; a tenth is the noise of a round. A quick run has no four
    { of: workers(4), to: workers(2), atMost: 1.1, mayLack: true },
    { of: reader, atMost: 8, mayLack: true },
  ],
};
