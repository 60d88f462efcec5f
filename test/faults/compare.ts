import { expect } from 'vitest';
import type { Pool } from 'pg';
import type { Target } from '../../src/change/target.ts';
import { createReader, expectCovered } from '../laws/run-program.ts';
import { axisEnd, lifetimes, periodsOf } from '../support/model.ts';
import type { Correction, Fold, Lifetime, Telling } from '../support/model.ts';
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
}

/** Laws 1 to 7, of the log as it is in the end. */
export async function expectModel({
  source,
  store,
  targets,
  atomicRows,
  committed,
}: Compared): Promise<number> {
  const logs = await Promise.all(modelTargets.map((target) => readLog(source, target)));
  const ids = new Set(logs.flat().map(({ id }) => id));
  expect(
    committed.filter((id) => !ids.has(Number(id))),
    'committed rows that the log does not have',
  ).toEqual([]);

  await expectLedger(store, logs.flat());
  await expectWholeTransactions(store, logs.flat(), atomicRows);
  for (const [place, { name, fold }] of modelTargets.entries()) {
    const target = targets.find((each) => each.name === name)!;
    await expectTarget(store, target, fold, logs[place]!);
  }
  return ids.size;
}

interface LogRow extends Correction {
  readonly xid: string;
}

async function readLog(source: Pool, { name, states }: ModelTarget): Promise<LogRow[]> {
  const steps = new Map(Array.from({ length: axisEnd + 1 }, (_, step) => [axis.write(step), step]));
  const { rows } = await source.query<Record<string, string | null>>(
    `select k, _op, v, _id, _xid, ${states.includes('f') ? 'f' : 'null'} as f, ${states.includes('t') ? 't' : 'null'} as t
     from corrections.${name}
     order by _id`,
  );
  return rows.map(({ k, _op: op, v, _id: id, _xid: xid, f, t }) => ({
    id: Number(id),
    key: k!,
    op: op as Correction['op'],
    from: typeof f === 'string' ? steps.get(f)! : 0,
    to: typeof t === 'string' ? steps.get(t)! : axisEnd,
    value: v ?? null,
    version: 0,
    xid: xid!,
  }));
}

/** Laws 5 and 6: the ledger has the log, each row once (its primary key), and nothing else; nothing was set aside. */
async function expectLedger(store: Pool, log: readonly LogRow[]): Promise<void> {
  const { rows } = await store.query<{ id: string }>(
    `select _id as id from emend.ledger where dismissed is null order by _id`,
  );
  const wanted = log.map(({ id }) => id).sort((one, other) => one - other);
  const found = rows.map(({ id }) => Number(id));
  const [inLedger, inLog] = [new Set(found), new Set(wanted)];
  expect(
    {
      lost: wanted.filter((id) => !inLedger.has(id)),
      invented: found.filter((id) => !inLog.has(id)),
      setAside: (await store.query('select _id, reason from emend.dead_letter')).rows,
      diverged: (await store.query('select * from emend.diverged')).rows,
    },
    'ledger and log',
  ).toEqual({ lost: [], invented: [], setAside: [], diverged: [] });
}

/** Law 7: what one transaction of the source wrote had its effect in one transaction of the store, if it is not too large. */
async function expectWholeTransactions(
  store: Pool,
  log: readonly LogRow[],
  atomicRows: number,
): Promise<void> {
  const { rows } = await store.query<{ id: string; by: string }>(
    `select _id as id, xmin::text as by from emend.ledger`,
  );
  const mergedBy = new Map(rows.map(({ id, by }) => [Number(id), by]));
  const transactions = new Map<string, LogRow[]>();
  for (const row of log) transactions.set(row.xid, [...(transactions.get(row.xid) ?? []), row]);
  const torn = [...transactions].filter(
    ([, of]) => of.length <= atomicRows && new Set(of.map(({ id }) => mergedBy.get(id))).size > 1,
  );
  expect(
    torn.map(([xid, of]) => ({ xid, rows: of.map(({ id }) => id) })),
    'transactions that became visible in parts',
  ).toEqual([]);
}

/** Laws 1 to 4, and 6: a second effect of anything would be in history. */
async function expectTarget(store: Pool, target: Target, fold: Fold, log: readonly LogRow[]): Promise<void> {
  const read = createReader({ pool: store, targets: [target] }, axis);
  const byKey = new Map<string, LogRow[]>();
  for (const row of log) byKey.set(row.key, [...(byKey.get(row.key) ?? []), row]);
  const now = [...byKey.values()].flatMap((rows) => fold(rows));
  expect(await read.believedNow(), `${target.name}: target and tombstones`).toEqual(sorted(now));
  if (target.kind === 'timeline')
    expect(await read.periods(), `${target.name}: periods`).toEqual(sorted(periodsOf(now)));
  const tellings = await read.tellings(log);
  expect(await read.everBelieved(), `${target.name}: target, history and tombstones over time`).toEqual(
    sorted([...byKey.keys()].flatMap((key) => lifetimesOf(key, tellings, fold))),
  );
  if (target.kind === 'timeline' && target.mode === 'override') await expectCovered(read, log);
}

/** Of one key: the model is slow, and keys know nothing of each other. */
function lifetimesOf(key: string, tellings: readonly Telling[], fold: Fold): Lifetime[] {
  const mine = tellings.flatMap(({ merged }, place) => {
    const ofKey = merged.filter((correction) => correction.key === key);
    return ofKey.length === 0 ? [] : [{ place, telling: { merged: ofKey, undone: [] } }];
  });
  return lifetimes(
    mine.map(({ telling }) => telling),
    fold,
  ).map((lifetime) => ({
    ...lifetime,
    knownFrom: mine[lifetime.knownFrom]!.place,
    knownTo: lifetime.knownTo === null ? null : mine[lifetime.knownTo]!.place,
  }));
}

function sorted<T>(rows: readonly T[]): T[] {
  return [...rows].sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
}
