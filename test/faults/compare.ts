import { expect } from 'vitest';
import type { Pool } from 'pg';
import type { Target } from '../../src/change/target.ts';
import { createReader, expectCovered } from '../laws/run-program.ts';
import { axisEnd, lifetimes, periodsOf, tellingsOf } from '../support/model.ts';
import type { Correction, Fold, Lifetime, Visible } from '../support/model.ts';
import type { BackfillOutcome } from './backfill-outcome.ts';
import { modelTargets } from './targets.ts';
import type { ModelTarget } from './targets.ts';
import { axis } from './writer.ts';

export interface Compared {
  readonly source: Pool;
  readonly store: Pool;
  readonly targets: readonly Target[];
  readonly atomicRows: number;
  /** Numbers of rows whose commit was answered. */
  readonly committed: readonly bigint[];
  readonly backfills: ReadonlyMap<string, BackfillOutcome>;
}

/** Laws 1 to 7, of the log as it is in the end. */
export async function expectModel(compared: Compared): Promise<number> {
  const { source, store, targets, atomicRows, committed, backfills } = compared;
  const logs = await Promise.all(modelTargets.map((target) => readLog(source, target)));
  const all = logs.flat();
  const ids = new Set(all.map(({ id }) => id));
  expect(
    committed.filter((id) => !ids.has(Number(id))),
    'committed rows that the log does not have',
  ).toEqual([]);

  const ledger = await readLedger(store);
  await expectLedger(store, all, ledger, backfills);
  await expectWholeTransactions(store, all, atomicRows);
  for (const [place, { name, fold }] of modelTargets.entries()) {
    const target = targets.find((each) => each.name === name)!;
    await expectTarget(store, target, fold, visibleOf(logs[place]!, ledger, backfills));
    await expectStaged(store, target, logs[place]!, backfills);
  }
  return ids.size;
}

interface LogRow extends Correction {
  readonly xid: string;
  readonly backfill: string | null;
}

async function readLog(source: Pool, { name, states }: ModelTarget): Promise<LogRow[]> {
  const steps = new Map(Array.from({ length: axisEnd + 1 }, (_, step) => [axis.write(step), step]));
  const { rows } = await source.query<Record<string, string | null>>(
    `select k, _op, v, _id, _xid, _backfill, ${states.includes('f') ? 'f' : 'null'} as f, ${states.includes('t') ? 't' : 'null'} as t
     from corrections.${name}
     order by _id`,
  );
  return rows.map(({ k, _op: op, v, _id: id, _xid: xid, _backfill: backfill, f, t }) => ({
    id: Number(id),
    key: k!,
    op: op as Correction['op'],
    from: typeof f === 'string' ? steps.get(f)! : 0,
    to: typeof t === 'string' ? steps.get(t)! : axisEnd,
    value: v ?? null,
    version: 0,
    xid: xid!,
    backfill: backfill ?? null,
  }));
}

/** What the ledger has of each row: when it was told, in microseconds, or as what it was dismissed. */
type Ledger = ReadonlyMap<number, number | string>;

async function readLedger(store: Pool): Promise<Ledger> {
  const { rows } = await store.query<{ id: string; told: string; dismissed: string | null }>(
    `select _id as id, (extract(epoch from told_at) * 1000000)::bigint as told, dismissed from emend.ledger`,
  );
  expect(new Set(rows.map(({ id }) => id)).size, 'numbers in the ledger, each once').toBe(rows.length);
  return new Map(rows.map(({ id, told, dismissed }) => [Number(id), dismissed ?? Number(told)]));
}

/** Laws 5 and 6: the ledger has what it ought to of each row of the log, and nothing else; nothing was set aside. */
async function expectLedger(
  store: Pool,
  log: readonly LogRow[],
  ledger: Ledger,
  backfills: Compared['backfills'],
): Promise<void> {
  const inLog = new Set(log.map(({ id }) => id));
  const wrong = log.filter(({ id, backfill }) => {
    const found = ledger.get(id);
    if (backfill === null) return typeof found !== 'number';
    const { state, toldAt } = backfills.get(backfill)!;
    return found !== (toldAt ?? (state === 'abandoned' ? 'abandoned' : undefined));
  });
  expect(
    {
      lost: wrong.map(({ id, backfill }) => ({ id, backfill, found: ledger.get(id) })),
      invented: [...ledger.keys()].filter((id) => !inLog.has(id)),
      setAside: (await store.query('select _id, reason from emend.dead_letter')).rows,
      diverged: (await store.query('select * from emend.diverged')).rows,
    },
    'ledger and log',
  ).toEqual({ lost: [], invented: [], setAside: [], diverged: [] });
}

/**
 * Law 7: what one transaction of the source wrote had its effect in one transaction of the store, if it is not too large. Of rows
 * that are compacted by now this cannot be told any more.
 */
async function expectWholeTransactions(
  store: Pool,
  log: readonly LogRow[],
  atomicRows: number,
): Promise<void> {
  const { rows } = await store.query<{ id: string; by: string }>(
    `select _id as id, xmin::text as by from emend.ledger_recent`,
  );
  const mergedBy = new Map(rows.map(({ id, by }) => [Number(id), by]));
  const transactions = new Map<string, LogRow[]>();
  for (const row of log)
    if (row.backfill === null) transactions.set(row.xid, [...(transactions.get(row.xid) ?? []), row]);
  const mergers = (of: readonly LogRow[]): string[] =>
    of.flatMap(({ id }) => (mergedBy.has(id) ? [mergedBy.get(id)!] : []));
  const torn = [...transactions].filter(
    // a large one is cut, also where so much of it is compacted that the rest is small
    ([, of]) => of.length <= atomicRows && new Set(mergers(of)).size > 1,
  );
  expect(
    torn.map(([xid, of]) => ({ xid, rows: of.map(({ id }) => id) })),
    'transactions that became visible in parts',
  ).toEqual([]);
}

/** A live correction from its merge on; the rows of a backfill from its promote to its revert. */
function visibleOf(log: readonly LogRow[], ledger: Ledger, backfills: Compared['backfills']): Visible[] {
  return log.flatMap((correction) => {
    const from = ledger.get(correction.id);
    if (typeof from !== 'number') return [];
    const to = correction.backfill === null ? null : backfills.get(correction.backfill)!.revertedAt;
    return [{ correction, from, to }];
  });
}

/** Laws 1 to 4, and 6: a second effect of anything would be in history. */
async function expectTarget(
  store: Pool,
  target: Target,
  fold: Fold,
  visible: readonly Visible[],
): Promise<void> {
  const read = createReader({ pool: store, targets: [target] }, axis);
  const byKey = new Map<string, Visible[]>();
  for (const each of visible) {
    const { key } = each.correction;
    byKey.set(key, [...(byKey.get(key) ?? []), each]);
  }
  const now = [...byKey.values()].flatMap((ofKey) =>
    fold(ofKey.filter(({ to }) => to === null).map(({ correction }) => correction)),
  );
  expect(await read.believedNow(), `${target.name}: target and tombstones`).toEqual(sorted(now));
  if (target.kind === 'timeline')
    expect(await read.periods(), `${target.name}: periods`).toEqual(sorted(periodsOf(now)));
  expect(await read.believedOverTime(), `${target.name}: target, history and tombstones over time`).toEqual(
    sorted([...byKey.values()].flatMap((ofKey) => lifetimesOf(ofKey, fold))),
  );
  if (target.kind === 'timeline' && target.mode === 'override')
    await expectCovered(
      read,
      visible.map(({ correction }) => correction),
    );
}

/** Of one key: the model is slow, and keys know nothing of each other. With the times of belief themselves. */
function lifetimesOf(visible: readonly Visible[], fold: Fold): Lifetime[] {
  const { ks, tellings } = tellingsOf(visible);
  return lifetimes(tellings, fold).map((lifetime) => ({
    ...lifetime,
    knownFrom: ks[lifetime.knownFrom]!,
    knownTo: lifetime.knownTo === null ? null : ks[lifetime.knownTo]!,
  }));
}

/** What waits for its promote is there, all of it where it was checked; nothing is left of what was decided on. */
async function expectStaged(
  store: Pool,
  target: Target,
  log: readonly LogRow[],
  backfills: Compared['backfills'],
): Promise<void> {
  const { rows } = await store.query<{ id: string }>(`select _id as id from emend.${target.name}_staged`);
  const staged = new Set(rows.map(({ id }) => Number(id)));
  const isIn = ({ backfill }: LogRow, ...states: readonly string[]): boolean =>
    backfill !== null && states.includes(backfills.get(backfill)!.state);
  expect(
    {
      missing: log.filter((row) => isIn(row, 'checked') && !staged.has(row.id)).map(({ id }) => id),
      left: log.filter((row) => staged.has(row.id) && !isIn(row, 'open', 'checked')).map(({ id }) => id),
    },
    `${target.name}: staged rows`,
  ).toEqual({ missing: [], left: [] });
}

function sorted<T>(rows: readonly T[]): T[] {
  return [...rows].sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
}
