import { mergeStagedRows } from '../contestants/merge-staged.ts';
import { promoteByStatement } from '../contestants/promote-by-statement.ts';
import { promoteBackfills } from '../contestants/promote.ts';
import type { Comparison, Size } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';

const small = 'promote';
const large = 'promote into ten times as many pieces';
const merge = 'the merge alone, one statement with ledger and history';
const statement = 'one statement for the same change, without ledger, history, checks and revert';

/** Rows of one round, behind those of the rounds before. */
function roundsOf(rows: number) {
  return (round: number) => ({ first: round * rows + 1, last: (round + 1) * rows });
}

function sizesOf({ quick, keys }: Size) {
  return quick ? { keys, rows: 200, warmUp: 0, rounds: 2 } : { keys, rows: 100_000, warmUp: 1, rounds: 3 };
}

export const backfillPromote: Comparison = {
  name: 'backfill-promote',
  title: 'A backfill of 100,000 corrections, promoted into 1,000,000 pieces',
  measure: (servers, size) => {
    const { keys, rows, ...rounds } = sizesOf(size);
    const spread = { keys, apart: 1 };
    return measure(servers, {
      ...rounds,
      contestants: [
        promoteBackfills(small, spread),
        mergeStagedRows(merge, spread),
        promoteByStatement(statement, spread),
      ],
      work: roundsOf(rows),
    });
  },
  ratios: [
    { of: small, to: merge, atMost: 2 },
    { of: small, to: statement },
    { of: `${small}: revert`, to: small, atMost: 1.5 },
    { of: `${small}: check`, to: small },
  ],
};

export const backfillGrowth: Comparison = {
  name: 'backfill-growth',
  title: 'A backfill of 100,000 corrections, promoted into 1,000,000 and into 10,000,000 pieces',
  measure: (servers, size) => {
    const { keys, rows, ...rounds } = sizesOf(size);
    return measure(servers, {
      ...rounds,
      contestants: [
        promoteBackfills(small, { keys, apart: 1 }),
        promoteBackfills(large, { keys, apart: 10 }),
      ],
      work: roundsOf(rows),
    });
  },
  ratios: [
    { of: large, to: small, atMost: 1.3 },
    { of: `${large}: check`, to: `${small}: check`, atMost: 1.3 },
    { of: `${large}: revert`, to: `${small}: revert`, atMost: 1.3 },
  ],
};
