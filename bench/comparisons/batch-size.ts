import { emendFacts } from '../contestants/emend-facts.ts';
import { emendTimeline } from '../contestants/emend-timeline.ts';
import { correctionsOf } from '../data/corrections.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import { createRandom } from '../harness/random.ts';

const sizes = [1, 10, 100, 200, 1_000, 5_000];
const timeline = (batchRows: number) => `timeline, batches of ${batchRows}`;
const facts = (batchRows: number) => `facts, batches of ${batchRows}`;

export const batchSize: Comparison = {
  name: 'batch-size',
  title: 'Merging batches of several sizes',
  measure: (server, { keys, rowsPerRound, warmUp, rounds }) => {
    const corrections = correctionsOf(keys, createRandom(4));
    return measure(server, {
      warmUp,
      rounds,
      contestants: sizes.flatMap((batchRows) => {
        // small batches take long, and the figures are per row
        const batches = {
          batchRows,
          atMostRows: Math.max(rowsPerRound / 20, Math.min(batchRows * 5, rowsPerRound)),
        };
        return [
          emendTimeline(
            timeline(batchRows),
            { keys, form: 'text', exclusion: false, historyPerKey: 0 },
            batches,
          ),
          emendFacts(facts(batchRows), { rows: keys * 10, historyPerRow: 0 }, batches),
        ];
      }),
      work: () => corrections.take(rowsPerRound),
    });
  },
  ratios: sizes.filter((size) => size !== 1_000).map((size) => ({ of: timeline(size), to: timeline(1_000) })),
};
