import { bulkLoad } from '../contestants/bulk-load.ts';
import { emendTimeline } from '../contestants/emend-timeline.ts';
import { correctionsOf } from '../data/corrections.ts';
import type { KeyForm } from '../data/corrections.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import { createRandom } from '../harness/random.ts';

const guards = (['text', 'integer'] as const).flatMap((form) =>
  [false, true].map((exclusion) => ({ form, exclusion })),
);

const nameOf = (form: KeyForm, exclusion: boolean) =>
  `${form} keys, ${exclusion ? 'exclusion constraint' : 'unique index'}`;

const ratios = (['text', 'integer'] as const).map((form) => ({
  of: nameOf(form, true),
  to: nameOf(form, false),
}));

export const guardedMerge: Comparison = {
  name: 'guard',
  title: 'Merging batches: an exclusion constraint beside the unique index against the unique index alone',
  measure: (server, { keys, batchRows, rowsPerRound, ...rounds }) => {
    const corrections = correctionsOf(keys, createRandom(3));
    return measure(server, {
      ...rounds,
      contestants: guards.map(({ form, exclusion }) =>
        emendTimeline(nameOf(form, exclusion), { keys, form, exclusion, historyPerKey: 0 }, { batchRows }),
      ),
      work: () => corrections.take(Math.min(rowsPerRound, 5_000)),
    });
  },
  ratios,
};

export const guardedLoad: Comparison = {
  name: 'guarded-load',
  title: 'Loading a target in bulk: the same guards',
  measure: (server, { rowsPerRound, ...rounds }) =>
    measure(server, {
      ...rounds,
      contestants: guards.map(({ form, exclusion }) =>
        bulkLoad(nameOf(form, exclusion), { form, exclusion }),
      ),
      work: () => rowsPerRound * 2,
    }),
  ratios,
};
