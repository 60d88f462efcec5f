import fc from 'fast-check';
import { axisEnd } from '../support/model.ts';
import type { Correction } from '../support/model.ts';

/** The targets of a program: facts, periods on two axes, starts. Those with a version column say so. */
export const kinds = ['orders', 'prices', 'rates', 'moves'] as const;
export type Kind = (typeof kinds)[number];
export const versioned: readonly Kind[] = ['orders', 'rates'];

/** A correction, written live (`backfill` null) or in one of the program's backfills. */
export interface Written extends Correction {
  readonly kind: Kind;
  readonly backfill: number | null;
}

/** What its author does with a backfill: the rounds in which he asks for each step; a step that he does not ask for is null. */
export interface Fate {
  /** Shares of its rows, as places among them, that are asked to be staged before it is sealed; they overlap. */
  readonly chunks: readonly (readonly [from: number, to: number])[];
  readonly chunkRound: number;
  readonly seal: number | null;
  readonly promote: number | null;
  readonly revert: number | null;
  readonly abandon: number | null;
}

/** What happens at once. */
export interface Round {
  /** Batches of live corrections, by their numbers in the program, with repetitions. */
  readonly batches: readonly (readonly number[])[];
  /** Live corrections that are taken back, if they are merged by then. */
  readonly undone: readonly number[];
  /** Which of the requests that were asked so far are carried out, again and again, by each of the workers. */
  readonly carriedOut: readonly (readonly number[])[];
}

export interface BackfillProgram {
  /** In the order of their `_id`s: rows of backfills are written early or late between live ones. */
  readonly corrections: readonly Written[];
  readonly fates: readonly Fate[];
  readonly rounds: readonly Round[];
  /** In which order what was not carried out is carried out in the end. */
  readonly lastOrder: 'as asked' | 'backwards';
}

const roundCount = 5;
const workers = 2;

const bound = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constant(axisEnd) },
  { weight: 6, arbitrary: fc.integer({ min: 0, max: axisEnd }) },
);

const bounds = fc
  .tuple(bound, bound)
  .filter(([one, other]) => one !== other)
  .map(([one, other]) => ({ from: Math.min(one, other), to: Math.max(one, other) }));

const draft = fc.record({
  key: fc.constantFrom('a', 'b', 'c'),
  op: fc.oneof(
    { weight: 5, arbitrary: fc.constant('upsert' as const) },
    { weight: 2, arbitrary: fc.constant('retract' as const) },
    { weight: 1, arbitrary: fc.constant('withdraw' as const) },
  ),
  bounds,
  value: fc.constantFrom('x', 'y', null),
  version: fc.integer({ min: 0, max: 5 }),
  // live as often as in one of the backfills
  writer: fc.integer({ min: 0, max: 5 }),
  kind: fc.nat(),
});

const round = fc.integer({ min: 0, max: roundCount - 1 });

const fate: fc.Arbitrary<Fate> = fc
  .record({
    rounds: fc
      .tuple(round, round, round, round)
      .map((drawn) => drawn.sort((one, other) => one - other) as [number, number, number, number]),
    end: fc.oneof(
      { weight: 1, arbitrary: fc.constantFrom('open', 'sealed', 'abandoned') },
      { weight: 1, arbitrary: fc.constant('promoted') },
      { weight: 2, arbitrary: fc.constant('reverted') },
    ),
    wasSealed: fc.boolean(),
    wasPromoted: fc.boolean(),
    chunks: fc.array(fc.tuple(fc.nat({ max: 40 }), fc.nat({ max: 40 })), { maxLength: 4 }),
  })
  .map(({ rounds: [first, second, third, fourth], end, wasSealed, wasPromoted, chunks }) => {
    const isSealed = end === 'abandoned' ? wasSealed : end !== 'open';
    const isPromoted =
      end === 'abandoned' ? wasSealed && wasPromoted : end === 'promoted' || end === 'reverted';
    return {
      chunks,
      chunkRound: first,
      seal: isSealed ? second : null,
      promote: isPromoted ? third : null,
      revert: end === 'reverted' ? fourth : null,
      abandon: end === 'abandoned' ? fourth : null,
    };
  });

export const backfillPrograms: fc.Arbitrary<BackfillProgram> = fc
  .record({
    drafts: fc.array(draft, { minLength: 3, maxLength: 70 }),
    keys: fc.integer({ min: 1, max: 3 }),
    fates: fc.array(fate, { minLength: 1, maxLength: 3 }),
    // of each backfill one kind or two
    kindsOf: fc.array(fc.tuple(fc.constantFrom(...kinds), fc.constantFrom(...kinds)), {
      minLength: 3,
      maxLength: 3,
    }),
    lastOrder: fc.constantFrom('as asked' as const, 'backwards' as const),
  })
  .chain(({ drafts, keys, fates, kindsOf, lastOrder }) => {
    const used = kindsOf.slice(0, fates.length).flat();
    const corrections = drafts.map(
      ({ key, op, bounds: period, value, version, writer, kind }, place): Written => {
        const backfill = writer < 3 ? null : (writer - 3) % fates.length;
        const written = backfill === null ? used[kind % used.length]! : kindsOf[backfill]![kind % 2]!;
        return {
          id: place + 1,
          key: 'abc'.charAt('abc'.indexOf(key) % keys),
          // only starts can be withdrawn
          op: op === 'withdraw' && written !== 'moves' ? 'retract' : op,
          ...period,
          value,
          version: versioned.includes(written) ? version : 0,
          kind: written,
          backfill,
        };
      },
    );
    const live = corrections.filter(({ backfill }) => backfill === null).map(({ id }) => id);
    return fc.record({
      corrections: fc.constant(corrections),
      fates: fc.constant(fates),
      rounds: rounds(live),
      lastOrder: fc.constant(lastOrder),
    });
  });

/** Each live correction is in one batch at least, some in two; a round has up to three batches. */
function rounds(live: readonly number[]): fc.Arbitrary<Round[]> {
  return fc
    .record({
      order: fc.shuffledSubarray([...live], { minLength: live.length, maxLength: live.length }),
      doubled: fc.subarray([...live], { maxLength: Math.ceil(live.length * 0.2) }),
      batchOf: fc.array(fc.nat({ max: roundCount * 3 - 1 }), {
        minLength: live.length * 2,
        maxLength: live.length * 2,
      }),
      undone: fc.array(fc.subarray([...live], { maxLength: Math.min(2, live.length) }), {
        minLength: roundCount,
        maxLength: roundCount,
      }),
      carriedOut: fc.array(
        fc.array(fc.array(fc.nat(), { minLength: 2, maxLength: 10 }), {
          minLength: workers,
          maxLength: workers,
        }),
        { minLength: roundCount, maxLength: roundCount },
      ),
    })
    .map(({ order, doubled, batchOf, undone, carriedOut }) => {
      const batches = Array.from({ length: roundCount * 3 }, (): number[] => []);
      [...order, ...doubled].forEach((id, turn) => batches[batchOf[turn]!]!.push(id));
      return Array.from({ length: roundCount }, (_, place) => ({
        batches: batches.slice(place * 3, place * 3 + 3).filter((batch) => batch.length > 0),
        undone: undone[place]!,
        carriedOut: carriedOut[place]!,
      }));
    });
}
