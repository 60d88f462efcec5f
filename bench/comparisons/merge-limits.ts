import { emendFacts } from '../contestants/emend-facts.ts';
import { emendTimeline } from '../contestants/emend-timeline.ts';
import { portionUpdate } from '../contestants/portion-update.ts';
import { statementFacts } from '../contestants/statement-facts.ts';
import { statementTimeline } from '../contestants/statement-timeline.ts';
import { correctionsOf } from '../data/corrections.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import type { BenchServer } from '../harness/server.ts';
import { createRandom } from '../harness/random.ts';

const timeline = 'timeline';
const facts = 'facts';
const anyOrder = 'one statement, timeline, any order';
const inOrder = 'one statement, timeline, trusts the order';
const upsert = 'one statement, facts (insert … on conflict)';
const portion = 'portion update (the extension periods)';
const versioned = 'portion update with system versioning (the extension periods)';

/** What the extension does with the timeline. One batch a turn is enough: a row takes it milliseconds. */
async function portionUpdates(server: BenchServer, { keys, batchRows }: { keys: number; batchRows: number }) {
  if (await server.offers('periods'))
    return [
      portionUpdate(portion, { keys, batchRows, atMostRows: batchRows, systemVersioning: false }),
      portionUpdate(versioned, { keys, batchRows, atMostRows: batchRows, systemVersioning: true }),
    ];
  console.log('The extension periods is left out: this server does not offer it.');
  return [];
}

export const mergeLimits: Comparison = {
  name: 'limits',
  title: 'Merging batches: timelines against facts, and both against one hand-written statement',
  measure: async (server, { keys, batchRows, rowsPerRound, warmUp, rounds }) => {
    const corrections = correctionsOf(keys, createRandom(1));
    return measure(server, {
      warmUp,
      rounds,
      contestants: [
        emendTimeline(timeline, { keys, form: 'text', exclusion: false, historyPerKey: 0 }, { batchRows }),
        emendFacts(facts, { rows: keys * 10, historyPerRow: 0 }, { batchRows }),
        statementTimeline(anyOrder, { keys, batchRows, anyOrder: true }),
        statementTimeline(inOrder, { keys, batchRows, anyOrder: false }),
        statementFacts(upsert, { rows: keys * 10, batchRows }),
        ...(await portionUpdates(server, { keys, batchRows })),
      ],
      work: () => corrections.take(rowsPerRound),
    });
  },
  ratios: [
    { of: timeline, to: facts, atMost: 6 },
    { of: timeline, to: upsert },
    { of: timeline, to: anyOrder, atMost: 1 / 0.8 },
    { of: timeline, to: inOrder },
    { of: timeline, to: versioned, mayLack: true },
    { of: facts, to: upsert },
  ],
};
