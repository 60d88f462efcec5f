import type { Pool } from 'pg';
import { expect } from 'vitest';
import type { BackfillWork } from '../../src/backfill/carry-out.ts';
import type { Target } from '../../src/change/target.ts';
import { verifyTarget } from '../../src/verify/verify.ts';
import {
  axisEnd,
  foldFacts,
  foldOverride,
  foldUntilNext,
  lifetimes,
  periodsOf,
  tellingsOf,
} from '../support/model.ts';
import type { Fold, Visible } from '../support/model.ts';
import type { StoreUnderTest } from '../support/store.ts';
import { kinds } from './backfill-programs.ts';
import type { BackfillProgram, Kind, Written } from './backfill-programs.ts';
import { axes, byText, createReader, expectCovered, microseconds, sorted } from './run-program.ts';
import type { Axis } from './run-program.ts';

export interface BackfillLaws {
  readonly source: Pool;
  readonly store: StoreUnderTest;
  /** One for each worker, with connections of its own. */
  readonly workers: readonly BackfillWork[];
}

/** `unknown`: nothing was asked of it that came to the store. */
export type BackfillState = 'unknown' | 'open' | 'checked' | 'promoted' | 'reverted' | 'abandoned';

/** A backfill as the store has it in the end. */
interface Outcome {
  readonly name: string;
  readonly rows: readonly Written[];
  readonly state: BackfillState;
  readonly toldAt: number | null;
  readonly revertedAt: number | null;
}

export const axisOf: Readonly<Record<Kind, Axis>> = {
  orders: axes[0]!,
  prices: axes[0]!,
  rates: axes[1]!,
  moves: axes[0]!,
};

const foldOf: Readonly<Record<Kind, Fold>> = {
  orders: foldFacts,
  prices: foldOverride,
  rates: foldOverride,
  moves: foldUntilNext,
};

export function nameOf(backfill: number): string {
  return `b${backfill}`;
}

export function targetOf({ store }: BackfillLaws, kind: Kind): Target {
  return store.targets.find(({ name }) => name === kind)!;
}

/** Holds everything that the store has after a program against the model. Returns what became of the backfills. */
export async function expectOutcome(
  laws: BackfillLaws,
  program: BackfillProgram,
  rowsOf: readonly (readonly Written[])[],
): Promise<BackfillState[]> {
  const outcomes = await readOutcomes(laws, program, rowsOf);
  await expectCarriedOut(laws, program, outcomes);
  for (const kind of kinds) await expectLaws(laws, program, outcomes, kind);
  return outcomes.map(({ state }) => state);
}

async function readOutcomes(
  { store }: BackfillLaws,
  { fates }: BackfillProgram,
  rowsOf: readonly (readonly Written[])[],
): Promise<Outcome[]> {
  const { rows } = await store.pool.query<
    Record<'name' | 'state', string> & Record<'told' | 'reverted', string | null>
  >(
    `select name, state, ${microseconds('told_at')} as told, ${microseconds('reverted_at')} as reverted from emend.backfill`,
  );
  const micro = (text: string | null | undefined) =>
    text === null || text === undefined ? null : Number(text);
  return fates.map((_, backfill) => {
    const found = rows.find(({ name }) => name === nameOf(backfill));
    return {
      name: nameOf(backfill),
      rows: rowsOf[backfill]!,
      state: (found?.state ?? 'unknown') as BackfillState,
      toldAt: micro(found?.told),
      revertedAt: micro(found?.reverted),
    };
  });
}

/** Everything that was asked was answered once, nothing stands in the way any more, and what was asked last is so. */
async function expectCarriedOut(
  { source, store }: BackfillLaws,
  { fates }: BackfillProgram,
  outcomes: readonly Outcome[],
): Promise<void> {
  for (const [backfill, { state, rows }] of outcomes.entries()) {
    const { chunks, seal, promote, revert, abandon } = fates[backfill]!;
    const possible: BackfillState[] =
      rows.length === 0 ? ['unknown']
      : abandon !== null ? (promote === null ? ['abandoned'] : ['abandoned', 'promoted'])
      // where the revert overtook the promote, there was nothing to take back, and there never will be
      : revert !== null ? ['reverted', 'abandoned']
      : promote !== null ? ['promoted']
      : seal !== null ? ['checked']
      : [chunks.length > 0 ? 'open' : 'unknown']; // prettier-ignore
    expect(possible, `what became of backfill ${backfill}`).toContain(state);
  }
  const done = await store.pool.query(`select _id::text as id from emend.backfill_request order by _id`);
  const asked = await source.query(`select _id::text as id from corrections._request order by _id`);
  expect(done.rows, 'requests that were carried out').toEqual(asked.rows);
  const left = await store.pool.query(
    `select holder from emend.fence union all select holder from emend.fence_of union all select name from emend.backfill where wish is not null or problem is not null and state <> 'checked'`,
  );
  expect(left.rows, 'fences, wishes and problems that are left').toEqual([]);
}

async function expectLaws(
  laws: BackfillLaws,
  program: BackfillProgram,
  outcomes: readonly Outcome[],
  kind: Kind,
): Promise<void> {
  const { source, store } = laws;
  const target = targetOf(laws, kind);
  const fold = foldOf[kind];
  const read = createReader({ pool: store.pool, targets: [target] }, axisOf[kind]);
  const corrections = program.corrections.filter((correction) => correction.kind === kind);
  const visible = await readVisible(laws, corrections, outcomes, kind);

  const now = fold(visible.filter(({ to }) => to === null).map(({ correction }) => correction));
  expect(await read.believedNow(), `${kind}: target and tombstones`).toEqual(sorted(now));
  if (target.kind === 'timeline')
    expect(await read.periods(), `${kind}_periods`).toEqual(periodsOf(now).sort(byText));

  const { ks, tellings } = tellingsOf(visible);
  const everBelieved = lifetimes(tellings, fold).map((row) => ({
    ...row,
    knownFrom: ks[row.knownFrom]!,
    knownTo: row.knownTo === null ? null : ks[row.knownTo]!,
  }));
  expect(await read.believedOverTime(), `${kind}: target, history and tombstones over time`).toEqual(
    sorted(everBelieved),
  );

  const everVisible = visible.map(({ correction }) => correction);
  if (kind === 'prices' || kind === 'rates') await expectCovered(read, everVisible);
  const recorded = new Set((await read.allParts()).map(({ id }) => id));
  expect(recorded, `${kind}: corrections that the store has something of`).toEqual(
    new Set(everVisible.map(({ id }) => id)),
  );

  await expectStaged(laws, read, corrections, outcomes, kind);
  const { found, differences, gaps } = await verifyTarget({
    source,
    store: store.pool,
    target,
    keys: null,
    repair: false,
    graceMs: 0,
    limit: 3,
  });
  expect([found, differences, gaps], `verify ${kind}`).toEqual([{}, [], []]);
}

/**
 * When each correction was visible: a live one from its merge to its undo, all rows of a backfill from its promote to its
 * revert. The record has to say so too, of each row once (law 6).
 */
async function readVisible(
  { store }: BackfillLaws,
  corrections: readonly Written[],
  outcomes: readonly Outcome[],
  kind: Kind,
): Promise<Visible[]> {
  const { rows } = await store.pool.query<
    Record<'id' | 'told', string> & { undone: string | null; dismissed: string | null }
  >(
    `select l._id as id, ${microseconds('l.told_at')} as told, ${microseconds('u.told_at')} as undone, l.dismissed
     from emend.ledger l
     left join emend.undone u on u._id = l._id and u.target = l.target
     where l.target = $1`,
    [kind],
  );
  const recorded = new Map(
    rows.map(({ id, told, undone, dismissed }) => [
      Number(id),
      dismissed ?? { from: Number(told), to: undone === null ? null : Number(undone) },
    ]),
  );
  const visible: Visible[] = [];
  for (const correction of corrections) {
    const { id, backfill } = correction;
    const found = recorded.get(id);
    recorded.delete(id);
    const outcome = backfill === null ? undefined : outcomes[backfill]!;
    if (outcome && outcome.toldAt !== null) {
      expect(found, `the record of ${id}, of a backfill that is ${outcome.state}`).toEqual({
        from: outcome.toldAt,
        to: outcome.revertedAt,
      });
    } else if (outcome) {
      const expected = outcome.state === 'abandoned' ? 'abandoned' : undefined;
      expect(found, `the record of ${id}, of a backfill that is ${outcome.state}`).toBe(expected);
      continue;
    }
    if (found === undefined || typeof found === 'string') expect.fail(`live correction ${id} is not merged`);
    visible.push({ correction, ...found });
  }
  expect([...recorded.keys()], 'recorded, and written by nobody').toEqual([]);
  return visible;
}

/** Rows of backfills that are neither promoted nor thrown away wait as they were written; and no others. */
async function expectStaged(
  { source }: BackfillLaws,
  read: ReturnType<typeof createReader>,
  corrections: readonly Written[],
  outcomes: readonly Outcome[],
  kind: Kind,
): Promise<void> {
  const { rows: chunks } = await source.query<Record<'backfill' | 'first' | 'last', string>>(
    `select backfill, details ->> 'first' as first, details ->> 'last' as last
     from corrections._request
     where request = 'chunk' and details ->> 'target' = $1`,
    [kind],
  );
  const waiting = corrections.filter(({ id, backfill }) => {
    const outcome = backfill === null ? undefined : outcomes[backfill]!;
    if (outcome?.state === 'checked') return true;
    if (outcome?.state !== 'open') return false;
    return chunks.some(
      (chunk) => chunk.backfill === outcome.name && Number(chunk.first) <= id && id <= Number(chunk.last),
    );
  });
  const hasEnd = kind === 'prices' || kind === 'rates';
  expect(await read.staged(), `${kind}_staged`).toEqual(
    sorted(
      waiting.map(({ id, key, op, from, to, value }) => ({
        key,
        from: kind === 'orders' ? 0 : from,
        to: hasEnd ? to : axisEnd,
        id,
        op,
        value: op === 'upsert' ? value : null,
      })),
    ),
  );
}
