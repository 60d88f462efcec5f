/**
 * Merges batches into the store.
 *
 * Promise: one store transaction a batch, with its ledger entry (law 6); what was one source transaction becomes visible
 * together (law 7); the result does not depend on order, cut or repetition (laws 1 to 3); a bad row is set aside alone (law 8).
 * If it breaks: doubled rows, half a transaction on a dashboard, or one bad row that stops all others.
 */
import type { Pool, PoolClient } from 'pg';
import type { Batch, LogRows } from '../change/batch.ts';
import type { Handle, Log } from '../change/ports.ts';
import type { Target } from '../change/target.ts';
import { sqlState, verdictOf } from '../db/sqlstate.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { announceK0 } from '../store/clock.ts';
import { arrivedParameters } from './arrived.ts';
import { setAside } from './dead-letter.ts';
import { factsMergeSql } from './facts-merge.ts';
import { halve } from './halve.ts';
import { lockBuckets } from './lock-buckets.ts';
import { overrideMergeSql } from './override-merge.ts';
import { untilNextMergeSql } from './until-next-merge.ts';

/**
 * Settings of the sessions that merge. Every look-up of a merge is by key; a plan made while a table was small, and kept,
 * would read the whole of it for each batch once it is large.
 */
export const mergeSettings: Readonly<Record<string, string>> = { enable_seqscan: 'off' };

export interface MergeOptions {
  /** Sessions with `mergeSettings`. */
  readonly pool: Pool;
  readonly targets: readonly Target[];
  readonly log: Log;
}

interface PreparedTarget {
  readonly target: Target;
  /** The target's place in the order of locks, from `emend.target`. */
  readonly number: number;
  readonly sql: string;
}

/**
 * The handler of batches. It rejects when trying again later may help, or when a human has to act first; rows at fault
 * are set aside, and their batch resolves.
 */
export async function createMerge(options: MergeOptions): Promise<Handle> {
  const prepared = await prepareTargets(options);
  return async (batch) => {
    await mergeParts(options, inLockOrder(prepared, batch), batch);
  };
}

interface Part {
  readonly prepared: PreparedTarget;
  readonly rows: LogRows;
}

async function mergeParts(options: MergeOptions, parts: readonly Part[], batch: Batch): Promise<void> {
  const { pool, log } = options;
  try {
    await withTransaction(pool, (client) => mergeInTransaction(client, parts));
  } catch (error) {
    if (verdictOf(error) !== 'halve') throw error;
    const halves = halve(parts);
    if (halves) {
      for (const half of halves) await mergeParts(options, half, batch);
      return;
    }
    const [{ prepared, rows }] = parts as [Part];
    const id = await setAside(pool, prepared.target, rows, error);
    log.error(
      {
        target: prepared.target.name,
        _id: id,
        sqlstate: sqlState(error),
        batch: batch.id,
      },
      'a log row was set aside: it cannot be merged; see emend.dead_letter',
    );
  }
}

/** Locks first, in one order for all (READ COMMITTED: each later statement sees what was committed before them). */
async function mergeInTransaction(client: PoolClient, parts: readonly Part[]): Promise<void> {
  for (const { prepared, rows } of parts) await lockBuckets(client, prepared.target, prepared.number, rows);
  const k0 = await announceK0(client);
  for (const { prepared, rows } of parts) await mergeRows(client, prepared, rows, k0);
}

/** Below this many rows a plan that is made once serves; above, the planner has to know how many rows there are. */
const preparedRows = 64;

async function mergeRows(
  client: PoolClient,
  { target, sql }: PreparedTarget,
  rows: LogRows,
  k0: string,
): Promise<void> {
  const few = (rows.values[0]?.length ?? 0) <= preparedRows;
  await client.query({
    ...(few ? { name: `emend merge ${target.name}` } : {}),
    text: sql,
    values: [k0, ...arrivedParameters(target, rows)],
  });
}

function inLockOrder(prepared: ReadonlyMap<string, PreparedTarget>, batch: Batch): Part[] {
  return batch.parts
    .map((rows) => {
      const found = prepared.get(rows.target);
      if (found) return { prepared: found, rows };
      throw new EmendError(
        'not_migrated',
        `batch ${batch.id} holds rows of corrections.${rows.target}, which this worker does not know`,
        {
          remedy: `Add targets.${rows.target} to the configuration of the workers, run emend migrate, and restart them; the rows wait meanwhile.`,
        },
      );
    })
    .sort((one, other) => one.prepared.number - other.prepared.number);
}

async function prepareTargets({ pool, targets }: MergeOptions): Promise<Map<string, PreparedTarget>> {
  const { rows } = await pool.query<{ name: string; number: string }>(
    `select name, number::text as number from emend.target`,
  );
  const numbers = new Map(rows.map((row) => [row.name, Number(row.number)]));
  return new Map(
    targets.map((target) => {
      const number = numbers.get(target.name);
      if (number === undefined) {
        throw new EmendError('not_migrated', `target ${target.name} has not been migrated`, {
          remedy: 'Run emend migrate.',
        });
      }
      return [target.name, { target, number, sql: mergeSql(target) }];
    }),
  );
}

function mergeSql(target: Target): string {
  if (target.kind === 'facts') return factsMergeSql(target);
  return target.mode === 'override' ? overrideMergeSql(target) : untilNextMergeSql(target);
}
