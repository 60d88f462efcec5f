import { expect } from 'vitest';
import type { TimelineTarget } from '../../src/change/target.ts';
import { undoCorrection } from '../../src/merge/undo.ts';
import { compactWhole } from '../support/ledger.ts';
import { axisEnd, lifetimes, periodsOf } from '../support/model.ts';
import type { Correction, Fold, Piece } from '../support/model.ts';
import { batchOf, logRows, noAbort } from '../support/store.ts';
import type { StoreUnderTest, TestRow } from '../support/store.ts';
import type { Program } from './programs.ts';

/** How steps of the model's axis are written in a column of the store, in order. */
export interface Axis {
  readonly type: string;
  write(step: number): string;
  /** How the table itself, and so the log, writes an end, where that is not the axis' own form. */
  readonly ends?: {
    readonly name: string;
    readonly openEnd: string | null;
    readonly closed: boolean;
    write(step: number): string | null;
  };
}

const days = (step: number) => `2020-01-${String(step).padStart(2, '0')}`;
const ends = (step: number, between: string) =>
  step === 0 ? '-infinity' : step === axisEnd ? 'infinity' : between;

export const axes: readonly Axis[] = [
  { type: 'date', write: (step) => ends(step, days(step)) },
  // three steps a microsecond apart, then a day
  {
    type: 'timestamptz',
    write: (step) => ends(step, `${days(Math.floor(step / 3) + 1)} 00:00:00.00000${step % 3}+00`),
  },
  {
    type: 'timestamp',
    write: (step) => ends(step, `${days(Math.floor(step / 3) + 1)} 00:00:00.00000${step % 3}`),
  },
  { type: 'integer', write: (step) => (step === axisEnd ? '2147483647' : String(step * 7)) },
  { type: 'bigint', write: (step) => (step === axisEnd ? '9223372036854775807' : String(step * 7)) },
];

/** Tables with ends of a form of their own. */
export const endForms: readonly Axis[] = [
  {
    ...axes[0]!,
    ends: {
      name: 'null for open',
      openEnd: null,
      closed: false,
      write: (step) => (step === axisEnd ? null : axes[0]!.write(step)),
    },
  },
  {
    ...axes[0]!,
    ends: {
      name: 'the last day, 9999-12-31 for open',
      openEnd: '9999-12-31',
      closed: true,
      write: (step) => (step === axisEnd ? '9999-12-31' : step === 1 ? '2019-12-31' : days(step - 1)),
    },
  },
  {
    ...axes[3]!,
    ends: {
      name: 'the last number, -1 for open',
      openEnd: '-1',
      closed: true,
      write: (step) => (step === axisEnd ? '-1' : String(step * 7 - 1)),
    },
  },
];

/** A correction as the log has it. */
export function logRowOf(axis: Axis, { id, key, op, from, to, value, version }: Correction): TestRow {
  return {
    _id: id,
    _op: op,
    k: key,
    f: axis.write(from),
    t: (axis.ends ?? axis).write(to),
    v: op === 'upsert' ? value : null,
    ver: version,
  };
}

/** Delivers the program's batches from several connections at once, then compares everything with the model. */
export async function runProgram(
  store: StoreUnderTest,
  axis: Axis,
  fold: Fold,
  program: Program,
): Promise<void> {
  const target = store.targets[0] as TimelineTarget;
  await store.pool.query(
    `truncate public.${target.name}, emend.${target.name}_history, emend.${target.name}_shadow,
       emend.${target.name}_tombstone, emend.ledger_recent, emend.ledger_block, emend.merge, emend.dead_letter, emend.undone`,
  );
  const deliver = (batches: Program['batches']) =>
    Promise.all(
      batches.map((places) =>
        store.handle(
          batchOf(
            logRows(
              target,
              places.map((place) => logRowOf(axis, program.corrections[place]!)),
            ),
          ),
          noAbort,
        ),
      ),
    );
  const half = Math.ceil(program.batches.length / 2);
  await deliver(program.batches.slice(0, half));
  const merged = new Set(program.batches.slice(0, half).flat());
  const undone = program.undone
    .filter((place) => merged.has(place))
    .map((place) => program.corrections[place]!);
  await Promise.all(
    undone.map(({ id, key }) =>
      undoCorrection(store.pool, {
        target,
        id: String(id),
        key: [key],
        actor: 'tester',
        reason: 'taken back',
      }),
    ),
  );
  // law 6: where the ledger has a correction makes no difference, not even while it is moved
  await Promise.all([deliver(program.batches.slice(half)), compactWhole(store.pool)]);
  const read = createReader(store, axis);

  // laws 1 to 3: what is believed now is a function of the set
  const now = fold(program.corrections.filter((correction) => !undone.includes(correction)));
  expect(await read.believedNow(), 'target and tombstones').toEqual(sorted(now));
  if (target.kind === 'timeline') {
    expect(await read.periods(), '_periods').toEqual(periodsOf(now).sort(byText));
  }

  // law 4: history is a function of the set and of when each was told
  const tellings = await read.tellings(program.corrections);
  expect(tellings.flatMap((telling) => telling.merged).length, 'each correction is told once').toBe(
    program.corrections.length,
  );
  expect(await read.everBelieved(), 'target, history and tombstones over time').toEqual(
    sorted(lifetimes(tellings, fold)),
  );
  if (target.kind === 'timeline' && target.mode === 'override')
    await expectCovered(read, program.corrections);
}

/** Law 4: whatever a correction stated is somewhere in the store, instant by instant. */
export async function expectCovered(
  read: Pick<ReturnType<typeof createReader>, 'allParts'>,
  corrections: readonly Correction[],
): Promise<void> {
  const partsOf = new Map<number, Piece[]>();
  for (const part of await read.allParts()) partsOf.set(part.id, [...(partsOf.get(part.id) ?? []), part]);
  for (const correction of corrections) {
    const mine = partsOf.get(correction.id) ?? [];
    for (let instant = correction.from; instant < correction.to; instant++) {
      const covered = mine.some((part) => part.from <= instant && instant < part.to);
      if (!covered) expect.fail(`instant ${instant} of correction ${correction.id} is nowhere in the store`);
    }
  }
}

/** What the store has of the first of these targets, in the words of the model. */
export function createReader({ pool, targets }: Pick<StoreUnderTest, 'pool' | 'targets'>, axis: Axis) {
  const target = targets[0]!;
  const steps = new Map(Array.from({ length: axisEnd + 1 }, (_, step) => [axis.write(step), step]));
  const step = (text: string) =>
    steps.get(canonical(text, axis)) ?? expect.fail(`not a bound of the program: ${text}`);
  const shownEnds = new Map(
    Array.from({ length: axisEnd + 1 }, (_, step) => [(axis.ends ?? axis).write(step), step]),
  );
  /** Target, `_told` and `_periods` show the table's form of an end; emend's own tables hold the axis'. */
  const shownEnd = (text: string | null) =>
    (text === null ? shownEnds.get(null) : shownEnds.get(canonical(text, axis))) ??
    expect.fail(`not an end of the program: ${text}`);
  const isTimeline = target.kind === 'timeline';
  const bounds = isTimeline ? 'f::text as f, t::text as t' : `null as f, null as t`;
  const piece = (row: Record<string, string | null>) => ({
    key: row.k!,
    from: isTimeline ? step(row.f!) : 0,
    to: !isTimeline ? axisEnd : row.shown === 't' ? shownEnd(row.t!) : step(row.t!),
    id: Number(row._version),
    op: row._op as Correction['op'],
    value: row.v ?? null,
  });
  const query = async (sql: string) => (await pool.query<Record<string, string | null>>(sql)).rows;
  const name = target.name;

  return {
    believedNow: async () =>
      sorted(
        (
          await query(`
            select k, ${bounds}, v, _version, 'upsert' as _op, true as shown from public.${name}
            union all
            select k, ${bounds}, null, _version, _op, false from emend.${name}_tombstone where _known_to = 'infinity'`)
        ).map(piece),
      ),
    periods: async () =>
      (await query(`select k, f::text, t::text, v from emend.${name}_periods`))
        .map((row) => ({ key: row.k!, from: step(row.f!), to: shownEnd(row.t!), value: row.v ?? null }))
        .sort(byText),
    /** The corrections of each K, in the order of K. */
    tellings: async (corrections: readonly Correction[]) => {
      const rows = await query(`
        select told_at, string_agg(merged::text, ' ') as merged, string_agg(undone::text, ' ') as undone
        from (
          select told_at, _id as merged, null::bigint as undone from emend.ledger where target = '${name}' and dismissed is null
          union all
          select told_at, null, _id from emend.undone where target = '${name}'
        ) as tellings
        group by told_at
        order by told_at`);
      const byId = new Map(corrections.map((correction) => [String(correction.id), correction]));
      const listed = (ids: string | null | undefined) =>
        ids ? ids.split(' ').map((id) => byId.get(id) ?? expect.fail(`nobody wrote correction ${id}`)) : [];
      return rows.map((row) => ({ merged: listed(row.merged), undone: listed(row.undone) }));
    },
    everBelieved: async () => {
      const rows = await query(`
        with ks as (
          select told_at, dense_rank() over (order by told_at) - 1 as k
          from (
            select told_at from emend.ledger where target = '${name}' and dismissed is null
            union
            select told_at from emend.undone where target = '${name}'
          ) as tellings
        ),
        told as (
          select k, ${bounds}, v, _version, 'upsert' as _op, _known_from, _known_to, true as shown from emend.${name}_told
          union all
          select k, ${bounds}, null, _version, _op, _known_from, _known_to, false from emend.${name}_tombstone
        )
        select t.*, (select distinct ks.k from ks where ks.told_at = t._known_from) as known_from,
          (select distinct ks.k from ks where ks.told_at = t._known_to) as known_to
        from told t`);
      return sorted(
        rows.map((row) => ({
          ...piece(row),
          knownFrom: Number(row.known_from),
          knownTo: row.known_to === null ? null : Number(row.known_to),
        })),
      );
    },
    /** The same, with the K's themselves, in microseconds. */
    believedOverTime: async () => {
      const rows = await query(`
        select told.*, ${microseconds('_known_from')} as known_from,
          case when _known_to < 'infinity' then ${microseconds('_known_to')} end as known_to
        from (
          select k, ${bounds}, v, _version, 'upsert' as _op, _known_from, _known_to, true as shown from emend.${name}_told
          union all
          select k, ${bounds}, null, _version, _op, _known_from, _known_to, false from emend.${name}_tombstone
        ) as told`);
      return sorted(
        rows.map((row) => ({
          ...piece(row),
          knownFrom: Number(row.known_from),
          knownTo: row.known_to === null ? null : Number(row.known_to),
        })),
      );
    },
    /** Rows of backfills that wait for their promote; a start says nothing of its end. */
    staged: async () => {
      const stated = isTimeline && target.mode === 'until_next' ? `f::text as f, 'infinity' as t` : bounds;
      const rows = await query(
        `select k, ${stated}, v, _id as _version, _op, false as shown from emend.${name}_staged`,
      );
      return sorted(rows.map(piece));
    },
    allParts: async () =>
      (
        await query(`
          select k, ${bounds}, v, _version, 'upsert' as _op, true as shown from emend.${name}_told
          union all select k, ${bounds}, null, _version, _op, false from emend.${name}_tombstone
          union all select k, ${bounds}, v, _version, _op, false from emend.${name}_shadow`)
      ).map(piece),
  };
}

export function microseconds(column: string): string {
  return `(extract(epoch from ${column}) * 1000000)::bigint`;
}

/** Postgres leaves out trailing zeros of a fraction. */
function canonical(text: string, axis: Axis): string {
  if (!axis.type.startsWith('timestamp') || text.endsWith('infinity')) return text;
  const zone = text.endsWith('+00') ? '+00' : '';
  const body = zone ? text.slice(0, -3) : text;
  return `${body.includes('.') ? body : `${body}.000000`}${zone}`;
}

export function byText(one: unknown, other: unknown): number {
  return JSON.stringify(one) < JSON.stringify(other) ? -1 : 1;
}

export function sorted<P extends Piece>(pieces: readonly P[]): P[] {
  return [...pieces].sort(byText);
}
