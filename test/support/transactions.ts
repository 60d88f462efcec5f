import { createRandom } from '../../bench/harness/random.ts';
import type { Transaction } from '../faults/program.ts';

/** Of one writer: mostly small ones, some of hundreds of rows, some taken back as a whole or in part. */
export function transactionsOf(seed: number, count: number): Transaction[] {
  const random = createRandom(seed);
  const sizes = [1, 1, 2, 5, 20, 100, 400];
  const ends = ['commit', 'commit', 'commit', 'savepoint', 'rollback'] as const;
  return Array.from({ length: count }, (_, place) => ({
    seed: seed * 1_000 + place,
    rows: sizes[random.below(sizes.length)]!,
    into: random.below(2) === 0 ? 'one' : 'all',
    end: ends[random.below(ends.length)]!,
    holdMs: random.below(10),
    pauseMs: random.below(40),
  }));
}
