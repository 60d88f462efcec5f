import { emendFacts } from '../contestants/emend-facts.ts';
import { emendTimeline } from '../contestants/emend-timeline.ts';
import { correctionsOf } from '../data/corrections.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import { createRandom } from '../harness/random.ts';

const timeline = (history: number) => `timeline, ${history} superseded rows a key`;
const facts = (history: number) => `facts, ${history} superseded rows a key`;

export const historyLength: Comparison = {
  name: 'history',
  title: 'Merging batches: keys with a short history against keys with a long one',
  measure: (server, { keys: most, batchRows, rowsPerRound, ...rounds }) => {
    // two million superseded rows; batches in which few keys come twice
    const keys = Math.min(most, 2_000);
    const batches = { batchRows: Math.min(batchRows, 200) };
    const corrections = correctionsOf(keys, createRandom(2));
    return measure(server, {
      ...rounds,
      contestants: [10, 1_000].flatMap((history) => [
        emendTimeline(
          timeline(history),
          { keys, form: 'text', exclusion: false, historyPerKey: history },
          batches,
        ),
        emendFacts(facts(history), { rows: keys, historyPerRow: history }, batches),
      ]),
      work: () => corrections.take(Math.min(rowsPerRound, 4_000)),
    });
  },
  ratios: [
    { of: timeline(1_000), to: timeline(10), atMost: 1.2 },
    { of: facts(1_000), to: facts(10), atMost: 1.2 },
  ],
};
