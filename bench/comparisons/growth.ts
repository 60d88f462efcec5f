import { emendFacts } from '../contestants/emend-facts.ts';
import { correctionsOf, piecesPerKey } from '../data/corrections.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import { createRandom } from '../harness/random.ts';

const little = 'ten superseded rows a key';
const much = 'as many as asked for';

/**
 * Turns of ten times the rows. Where history is long a key has about a page of its index to itself, and a page that is changed for
 * the first time since a checkpoint is read, and goes whole into the WAL: it is the rate that is asked for, not the first seconds.
 */
const timesRows = 10;

/** The work is the merge of batches: neither writer, reader nor queue knows of history. */
export const growth: Comparison = {
  name: 'growth',
  title:
    'Merging facts over 1,000,000 rows of history, and over 20,000,000 (or `--history=<rows>`), spread over 100,000 keys',
  measure: (servers, { keys, batchRows, rowsPerRound, warmUp, rounds, historyRows }) => {
    const corrections = correctionsOf(keys / piecesPerKey, createRandom(5));
    const facts = (name: string, historyPerRow: number) =>
      emendFacts(name, { rows: keys, historyPerRow }, { batchRows });
    return measure(servers, {
      warmUp,
      rounds,
      contestants: [facts(little, 10), facts(much, Math.max(1, Math.round(historyRows / keys)))],
      work: () => corrections.take(rowsPerRound * timesRows),
    });
  },
  ratios: [{ of: much, to: little, atMost: 1 / 0.8 }],
};
