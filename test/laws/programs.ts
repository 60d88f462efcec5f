import fc from 'fast-check';
import { axisEnd } from '../support/model.ts';
import type { Correction } from '../support/model.ts';

/** Random histories of corrections and their delivery: who writes what, and how it is cut, doubled and shuffled. */
export interface Program {
  readonly corrections: readonly Correction[];
  /** Batches as they are delivered: places in `corrections`, with repetitions; each correction is in one at least. */
  readonly batches: readonly (readonly number[])[];
  /** Places of corrections that are taken back once the first half of the batches is merged, if they are in it. */
  readonly undone: readonly number[];
}

export interface ProgramShape {
  readonly ops: readonly { readonly op: Correction['op']; readonly weight: number }[];
  /** Whether corrections carry a version of their own, with ties. */
  readonly versioned: boolean;
}

export function programs(shape: ProgramShape): fc.Arbitrary<Program> {
  const correction = fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    op: fc.oneof(...shape.ops.map(({ op, weight }) => ({ weight, arbitrary: fc.constant(op) }))),
    bounds: fc
      .tuple(bound, bound)
      .filter(([one, other]) => one !== other)
      .map(([one, other]) => (one < other ? { from: one, to: other } : { from: other, to: one })),
    value: fc.constantFrom('x', 'y', null),
    version: shape.versioned ? fc.integer({ min: 0, max: 5 }) : fc.constant(0),
  });
  return fc
    .record({
      keys: fc.integer({ min: 1, max: 5 }),
      drafts: fc.array(correction, { minLength: 1, maxLength: 80 }),
      batchCount: fc.integer({ min: 1, max: 8 }),
    })
    .chain(({ keys, drafts, batchCount }) => {
      const corrections = drafts.map(({ key, bounds, ...rest }, place) => ({
        id: place + 1,
        key: 'abcde'.charAt('abcde'.indexOf(key) % keys),
        ...bounds,
        ...rest,
      }));
      const places = corrections.map((_, place) => place);
      return fc.record({
        corrections: fc.constant(corrections),
        batches: deliveries(corrections.length, batchCount),
        undone: fc.subarray(places, { maxLength: Math.min(6, places.length) }),
      });
    });
}

/** Open ends often; otherwise anywhere, so that bounds touch and coincide. */
const bound = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constant(axisEnd) },
  { weight: 6, arbitrary: fc.integer({ min: 0, max: axisEnd }) },
);

function deliveries(count: number, batchCount: number): fc.Arbitrary<number[][]> {
  const places = Array.from({ length: count }, (_, place) => place);
  return fc
    .record({
      order: fc.shuffledSubarray(places, { minLength: count, maxLength: count }),
      doubled: fc.subarray(places, { maxLength: Math.ceil(count * 0.15) }),
      batchOf: fc.array(fc.integer({ min: 0, max: batchCount - 1 }), {
        minLength: count * 2,
        maxLength: count * 2,
      }),
    })
    .map(({ order, doubled, batchOf }) => {
      const batches = Array.from({ length: batchCount }, (): number[] => []);
      [...order, ...doubled].forEach((place, turn) => batches[batchOf[turn]!]!.push(place));
      return batches.filter((batch) => batch.length > 0);
    });
}
