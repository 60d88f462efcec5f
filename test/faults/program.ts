import fc from 'fast-check';

/** What is written and what goes wrong meanwhile: plain data, so that it can be printed and run again. */
export interface Program {
  readonly keys: number;
  readonly readers: number;
  readonly workers: number;
  /** Each on a connection of its own, all at once. */
  readonly writers: readonly (readonly Transaction[])[];
  readonly faults: readonly Fault[];
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
  /** SIGSTOP: a lock of a job lasts three seconds. */
  | {
      readonly kind: 'stop';
      readonly what: 'reader' | 'worker';
      readonly which: number;
      readonly forMs: number;
    }
  | { readonly kind: 'kill postgres'; readonly what: 'source' | 'store'; readonly downMs: number }
  | { readonly kind: 'restart postgres'; readonly what: 'source' | 'store' }
  | { readonly kind: 'cut connections'; readonly what: 'source' | 'store' }
  | { readonly kind: 'drop slot' }
  | { readonly kind: 'kill redis'; readonly downMs: number; readonly keepsData: boolean }
  | { readonly kind: 'empty queue' }
);

/** Of a seed, always the same program. */
export function programOf(seed: number, queue: 'redis' | 'postgres'): Program {
  return fc.sample(programs(queue), { seed, numRuns: 1 })[0]!;
}

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

function programs(queue: 'redis' | 'postgres'): fc.Arbitrary<Program> {
  return fc.record({
    keys: fc.constantFrom(2, 8, 40, 200),
    readers: fc.integer({ min: 1, max: 2 }),
    workers: fc.integer({ min: 1, max: 3 }),
    writers: fc.array(fc.array(transaction, { minLength: 5, maxLength: 40 }), { minLength: 1, maxLength: 4 }),
    faults: fc.array(faultOf[queue], {
      minLength: 2,
      maxLength: 7,
    }),
  });
}
