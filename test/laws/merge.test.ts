import fc from 'fast-check';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { createDatabases } from '../support/databases.ts';
import { foldFacts, foldOverride, foldUntilNext } from '../support/model.ts';
import { createStore } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';
import { programs } from './programs.ts';
import type { ProgramShape } from './programs.ts';
import { axes, endForms, runProgram } from './run-program.ts';
import type { Axis } from './run-program.ts';

/** Seconds for all laws together: EMEND_LAWS_SECONDS, 30 by default. EMEND_LAWS_SEED repeats a run. */
const seconds = Number(process.env.EMEND_LAWS_SECONDS ?? 30);
const seed = Number(process.env.EMEND_LAWS_SEED ?? Math.floor(Math.random() * 2 ** 31));

const upsertsAndRetractions: ProgramShape['ops'] = [
  { op: 'upsert', weight: 4 },
  { op: 'retract', weight: 1 },
];
const startsToo: ProgramShape['ops'] = [...upsertsAndRetractions, { op: 'withdraw', weight: 1 }];

const cases = [
  ...axes.map((axis) => ({
    name: `override on ${axis.type}`,
    axis,
    mode: 'override' as const,
    versioned: false,
  })),
  ...endForms.map((axis) => ({
    name: `override, ends: ${axis.ends!.name}`,
    axis,
    mode: 'override' as const,
    versioned: false,
  })),
  { name: 'override with a version column', axis: axes[0]!, mode: 'override' as const, versioned: true },
  ...axes
    .filter(({ type }) => type === 'date' || type === 'bigint')
    .map((axis) => ({
      name: `until next on ${axis.type}`,
      axis,
      mode: 'until_next' as const,
      versioned: false,
    })),
  {
    name: 'until next, ends: null for open',
    axis: endForms[0]!,
    mode: 'until_next' as const,
    versioned: false,
  },
  { name: 'until next with a version column', axis: axes[0]!, mode: 'until_next' as const, versioned: true },
  { name: 'facts', axis: axes[0]!, mode: 'facts' as const, versioned: false },
  { name: 'facts with a version column', axis: axes[0]!, mode: 'facts' as const, versioned: true },
];

describe.each(cases)(
  'any order, cut and repetition gives the same store: $name',
  ({ name, axis, mode, versioned }) => {
    let store: StoreUnderTest;

    beforeAll(async () => {
      const { storeUrl } = await createDatabases(`laws ${name}`);
      store = await openStore(storeUrl, axis, mode, versioned);
    });
    afterAll(() => store?.pool.end());

    it(`equals the model (seed ${seed})`, { timeout: seconds * 1000 + 60_000 }, async () => {
      const fold = mode === 'facts' ? foldFacts : mode === 'override' ? foldOverride : foldUntilNext;
      const shape = { ops: mode === 'until_next' ? startsToo : upsertsAndRetractions, versioned };
      await fc.assert(
        fc.asyncProperty(programs(shape), (program) => runProgram(store, axis, fold, program)),
        {
          seed,
          numRuns: 1_000_000,
          interruptAfterTimeLimit: (seconds * 1000) / cases.length,
          markInterruptAsFailure: false,
        },
      );
    });
  },
);

function openStore(
  url: string,
  axis: Axis,
  mode: 'override' | 'until_next' | 'facts',
  versioned: boolean,
): Promise<StoreUnderTest> {
  const version = versioned ? 'ver' : null;
  const ver = versioned ? ', ver integer not null' : '';
  if (mode === 'facts') {
    return createStore(url, `create table public.x (k text primary key, v text${ver})`, [
      { name: 'x', kind: 'facts', key: ['k'], version },
    ]);
  }
  const ddl = `create table public.x (k text not null, f ${axis.type} not null, t ${axis.type}${axis.ends?.openEnd === null ? '' : ' not null'}, v text${ver})`;
  return createStore(url, ddl, [
    {
      name: 'x',
      kind: 'timeline',
      key: ['k'],
      period: { from: 'f', to: 't', mode, openEnd: axis.ends?.openEnd, closed: axis.ends?.closed },
      version,
    },
  ]);
}
