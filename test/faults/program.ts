import fc from 'fast-check';

/** What is written and what goes wrong meanwhile: plain data, so that it can be printed and run again. */
export interface Program {
  readonly keys: number;
  /** Processes; each takes what shares no other has. */
  readonly readers: number;
  /** `capture.readers` */
  readonly shares: number;
  readonly workers: number;
  /** Each on a connection of its own, all at once. */
  readonly writers: readonly (readonly Transaction[])[];
  /** Of an author each, beside the writers. */
  readonly backfills: readonly BackfillPlan[];
  readonly faults: readonly Fault[];
  /** `queue.maxBytes`: so small that batches go by reference; null: the default. */
  readonly maxQueueBytes: number | null;
  /** The locks of jobs last as long as in production, not a tenth of it. */
  readonly hasRealLocks: boolean;
  /** The ledger is compacted at once, not when it is large. */
  readonly compacts: boolean;
}

export interface BackfillPlan {
  readonly startMs: number;
  /** One after the other, each a transaction over all targets. */
  readonly parts: readonly BackfillPart[];
  readonly fate: 'open' | 'sealed' | 'promoted' | 'reverted' | 'abandoned';
  /** Before it is sealed, before its promote is asked for, before its last step. */
  readonly pausesMs: readonly [number, number, number];
  /** Its author looks whether the store has done a step before he asks for the next one. */
  readonly isPatient: boolean;
}

export interface BackfillPart {
  readonly seed: number;
  readonly rows: number;
  /** Asks at once for what is loaded so far to be staged. */
  readonly isChunked: boolean;
}

export interface Transaction {
  /** The rows are made from this seed. */
  readonly seed: number;
  readonly rows: number;
  /** In one target, or over all. */
  readonly into: 'one' | 'all';
  /** `savepoint`: a part of it is taken back inside of it. `cut`: its connection goes before the end. */
  readonly end: 'commit' | 'rollback' | 'savepoint' | 'cut';
  /** Stays open for so long before its end. */
  readonly holdMs: number;
  readonly pauseMs: number;
}

export type Fault = { readonly atMs: number } & (
  | {
      readonly kind: 'kill';
      readonly what: 'reader' | 'worker';
      readonly which: number;
      readonly downMs: number;
    }
  /** At a moment in which a merge holds its locks, if there is one soon: between its first statement and its commit. */
  | {
      readonly kind: 'in merge';
      readonly of: 'kill' | 'stop' | 'kill store' | 'kill redis';
      readonly forMs: number;
    }
  /** While a worker moves a backfill that the store has in this state, if one does soon: it is counted, checked, promoted, reverted. */
  | {
      readonly kind: 'in backfill';
      readonly at: 'sealed' | 'staged' | 'checked' | 'promoted';
      readonly of: 'kill' | 'stop' | 'kill store' | 'kill source';
      readonly forMs: number;
    }
  /** SIGSTOP: a lock of a job lasts three seconds, unless locks are real: then thirty. */
  | {
      readonly kind: 'stop';
      readonly what: 'reader' | 'worker';
      readonly which: number;
      readonly forMs: number;
    }
  | { readonly kind: 'kill postgres'; readonly what: 'source' | 'store'; readonly downMs: number }
  | { readonly kind: 'restart postgres'; readonly what: 'source' | 'store' }
  /** Both at once. `immediate`: without a checkpoint, as a crash. */
  | { readonly kind: 'restart both'; readonly how: 'fast' | 'immediate' }
  | { readonly kind: 'cut connections'; readonly what: 'source' | 'store' }
  | { readonly kind: 'drop slot' }
  | { readonly kind: 'kill redis'; readonly downMs: number; readonly keepsData: boolean }
  | { readonly kind: 'empty queue' }
);

/** Of a seed, always the same program. In the long form some take minutes. */
export function programOf(seed: number, queue: 'redis' | 'postgres', isLong: boolean): Program {
  const [program] = fc.sample(programs(queue), { seed, numRuns: 1 });
  const slow = isLong ? slowFaults[queue][seed % 16] : undefined;
  if (!slow) return program!;
  return {
    ...program!,
    hasRealLocks: slow.kind === 'in merge',
    // nobody may do for a worker that stands still what its lock keeps from others
    workers: slow.kind === 'in merge' ? 2 : program!.workers,
    faults: [slow, ...program!.faults],
  };
}

/** What takes long, for one seed of sixteen each: workers stand still past the lock of their jobs; Redis is away for a minute. */
const slowFaults: Record<'redis' | 'postgres', Readonly<Record<number, Fault>>> = {
  redis: {
    3: { atMs: 500, kind: 'in merge', of: 'stop', forMs: 35_000 },
    11: { atMs: 500, kind: 'kill redis', downMs: 60_000, keepsData: false },
    14: { atMs: 500, kind: 'kill redis', downMs: 60_000, keepsData: true },
  },
  postgres: { 3: { atMs: 500, kind: 'in merge', of: 'stop', forMs: 35_000 } },
};

const rows = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 1, max: 3 }) },
  { weight: 6, arbitrary: fc.integer({ min: 4, max: 60 }) },
  { weight: 2, arbitrary: fc.integer({ min: 500, max: 1_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1_001, max: 3_000 }) },
);

const transaction: fc.Arbitrary<Transaction> = fc.record({
  seed: fc.nat(),
  rows,
  into: fc.constantFrom('one', 'all'),
  end: fc.oneof(
    { weight: 12, arbitrary: fc.constant('commit' as const) },
    { weight: 2, arbitrary: fc.constant('rollback' as const) },
    { weight: 1, arbitrary: fc.constant('savepoint' as const) },
    { weight: 1, arbitrary: fc.constant('cut' as const) },
  ),
  holdMs: fc.oneof(
    { weight: 12, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: 100, max: 3_000 }) },
  ),
  pauseMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 250 })),
});

const atMs = fc.integer({ min: 0, max: 3_000 });
const downMs = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1_500 }));
const forMs = fc.integer({ min: 300, max: 5_000 });
const what = fc.constantFrom('reader' as const, 'worker' as const);
const server = fc.constantFrom('source' as const, 'store' as const);
const which = fc.nat({ max: 2 });
const kind = <K extends Fault['kind']>(name: K): fc.Arbitrary<K> => fc.constant(name);

const anywhere: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ atMs, kind: kind('kill'), what, which, downMs }) },
  {
    weight: 3,
    arbitrary: fc.record({
      atMs,
      kind: kind('in merge'),
      of: fc.constantFrom('kill' as const, 'stop' as const, 'kill store' as const),
      forMs,
    }),
  },
  { weight: 2, arbitrary: fc.record({ atMs, kind: kind('stop'), what, which, forMs }) },
  { weight: 2, arbitrary: fc.record({ atMs, kind: kind('kill postgres'), what: server, downMs }) },
  { weight: 1, arbitrary: fc.record({ atMs, kind: kind('restart postgres'), what: server }) },
  {
    weight: 1,
    arbitrary: fc.record({
      atMs,
      kind: kind('restart both'),
      how: fc.constantFrom('fast' as const, 'immediate' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ atMs, kind: kind('cut connections'), what: server }) },
  { weight: 1, arbitrary: fc.record({ atMs, kind: kind('drop slot') }) },
);

const emptied: fc.Arbitrary<Fault> = fc.record({ atMs, kind: kind('empty queue') });

const ofRedis: fc.Arbitrary<Fault> = fc.oneof(
  fc.record({ atMs, kind: kind('kill redis'), downMs, keepsData: fc.boolean() }),
  fc.record({ atMs, kind: kind('in merge'), of: fc.constant('kill redis' as const), forMs: downMs }),
);

const faultOf = {
  redis: fc.oneof(
    { weight: 5, arbitrary: anywhere },
    { weight: 2, arbitrary: ofRedis },
    { weight: 1, arbitrary: emptied },
  ),
  postgres: fc.oneof({ weight: 6, arbitrary: anywhere }, { weight: 1, arbitrary: emptied }),
};

const inBackfill: fc.Arbitrary<Fault> = fc.record({
  atMs,
  kind: kind('in backfill'),
  at: fc.constantFrom('sealed' as const, 'staged' as const, 'checked' as const, 'promoted' as const),
  of: fc.oneof(
    { weight: 3, arbitrary: fc.constant('kill' as const) },
    { weight: 1, arbitrary: fc.constantFrom('stop' as const, 'kill store' as const, 'kill source' as const) },
  ),
  forMs,
});

const part: fc.Arbitrary<BackfillPart> = fc.record({
  seed: fc.nat(),
  rows: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 1, max: 40 }) },
    { weight: 1, arbitrary: fc.integer({ min: 41, max: 2_000 }) },
  ),
  isChunked: fc.boolean(),
});

const authorPauseMs = fc.integer({ min: 0, max: 700 });

const backfill: fc.Arbitrary<BackfillPlan> = fc.record({
  startMs: fc.integer({ min: 0, max: 1_500 }),
  parts: fc.array(part, { minLength: 1, maxLength: 4 }),
  fate: fc.oneof(
    { weight: 1, arbitrary: fc.constantFrom('open' as const, 'sealed' as const) },
    { weight: 2, arbitrary: fc.constantFrom('promoted' as const, 'abandoned' as const) },
    { weight: 2, arbitrary: fc.constant('reverted' as const) },
  ),
  pausesMs: fc.tuple(authorPauseMs, authorPauseMs, authorPauseMs),
  isPatient: fc.boolean(),
});

/** Half of the programs have backfills, and then faults that look for them. */
const backfills = fc.oneof(
  fc.constant({ plans: [] as BackfillPlan[], faults: [] as Fault[] }),
  fc.record({
    plans: fc.array(backfill, { minLength: 1, maxLength: 3 }),
    faults: fc.array(inBackfill, { minLength: 1, maxLength: 3 }),
  }),
);

/** With one byte a queue is full as soon as anything waits. */
const maxQueueBytes = fc.oneof(
  { weight: 2, arbitrary: fc.constant(null) },
  { weight: 1, arbitrary: fc.constantFrom(1, 30_000) },
);

function programs(queue: 'redis' | 'postgres'): fc.Arbitrary<Program> {
  const shape = fc.record({
    keys: fc.constantFrom(2, 8, 40, 200),
    readers: fc.integer({ min: 1, max: 2 }),
    workers: fc.integer({ min: 1, max: 3 }),
    writers: fc.array(fc.array(transaction, { minLength: 5, maxLength: 40 }), { minLength: 1, maxLength: 4 }),
    faults: fc.array(faultOf[queue], {
      minLength: 2,
      maxLength: 7,
    }),
    backfills,
    maxQueueBytes,
    compacts: fc.boolean(),
    shares: fc.integer({ min: 1, max: 2 }),
  });
  return shape.map(({ backfills: { plans, faults: theirs }, faults, ...rest }) => ({
    ...rest,
    backfills: plans,
    faults: [...faults, ...theirs],
    hasRealLocks: false,
  }));
}
