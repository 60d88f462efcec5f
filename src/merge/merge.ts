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
import type { PoolOptions } from '../db/pool.ts';
import { sqlState, verdictOf } from '../db/sqlstate.ts';
import { inOneTrip, withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { announceK0, takeK, takenK } from '../store/clock.ts';
import { setAside } from './dead-letter.ts';
import { fencesStand, requireNoFence } from './fence.ts';
import { halve } from './halve.ts';
import { lockKeys } from './lock-keys.ts';
import { mergeRows, prepareTargets, readDefaults } from './prepared-target.ts';
import type { Defaults, PreparedTarget } from './prepared-target.ts';
import { notAsDecided } from './require-written.ts';
import { takeKeys } from './take-keys.ts';
import { createTurns } from './turns.ts';
import type { Turn } from './turns.ts';

/**
 * Settings of the sessions that merge. Every look-up of a merge is by key; a plan made while a table was small, and kept,
 * would read the whole of it for each batch once it is large. And a merge is milliseconds of work, which the planner takes for
 * much more: compiling it, where Postgres is built with LLVM, takes one to three seconds, each time.
 */
export const mergeSettings: Readonly<Record<string, string>> = { enable_seqscan: 'off', jit: 'off' };

/** The sessions of a pool whose rows are merged in: a batch is one trip to the server (`inOneTrip`). */
export const mergeSessions: Pick<PoolOptions, 'settings' | 'pipeline'> = {
  settings: mergeSettings,
  pipeline: true,
};

export interface MergeOptions {
  /** A pool of `mergeSessions`. */
  readonly pool: Pool;
  readonly targets: readonly Target[];
  readonly log: Log;
}

/**
 * The handler of batches. It rejects when trying again later may help, or when a human has to act first; rows at fault
 * are set aside, and their batch resolves.
 */
export async function createMerge(options: MergeOptions): Promise<Handle> {
  const prepared = await prepareTargets(options.pool, options.targets, takenK);
  const nextTurn = createTurns();
  return async (batch) => {
    const turn = nextTurn();
    try {
      await mergeBatch({ ...options, batch, turn }, inLockOrder(prepared, batch));
    } finally {
      turn.end();
    }
  };
}

/** A batch at work. */
interface Work extends MergeOptions {
  readonly batch: Batch;
  readonly turn: Turn;
}

async function mergeBatch(work: Work, parts: readonly Part[]): Promise<void> {
  const early = await mergeParts(work, parts, 'first');
  const stillEarly: Part[] = [];
  for (const part of early) stillEarly.push(...(await mergeParts(work, [part], 'again')));
  if (stillEarly.length === 0) return;
  throw new EmendError(
    'reference_missing',
    `batch ${work.batch.id} holds rows of ${stillEarly[0]!.prepared.target.name} that a foreign key keeps out`,
    { remedy: 'They are tried again for some seconds, then set aside.' },
  );
}

/**
 * A row that a foreign key keeps out may only be early: its partner is in the same batch, or in one at work elsewhere. It is
 * tried again after the rest of its batch, and with its batch, by the queue, until it is so old; then it is set aside.
 *
 * A row that the table did not take as decided (`notAsDecided`) is tried again once: others may have changed what stood there while
 * the merge waited for them, and its place is another one now. If it was a trigger, it is so again.
 */
const foreignKeyViolation = '23503';
const foreignKeyGraceMs = 10_000;

interface Part {
  readonly prepared: PreparedTarget;
  readonly rows: LogRows;
}

/** Returns what may only be early. */
async function mergeParts(work: Work, parts: readonly Part[], attempt: 'first' | 'again'): Promise<Part[]> {
  const { pool, log, batch, turn } = work;
  try {
    await mergeInOneTrip(pool, parts, turn);
    return [];
  } catch (error) {
    if (verdictOf(error) !== 'halve') throw error;
    const isForeignKey = sqlState(error) === foreignKeyViolation;
    const mayHaveChanged = isForeignKey || sqlState(error) === notAsDecided;
    if (mayHaveChanged && attempt === 'first' && parts.length === 1) return [...parts];
    const halves = halve(parts);
    if (halves) {
      const early: Part[] = [];
      for (const half of halves) early.push(...(await mergeParts(work, half, attempt)));
      return early;
    }
    if (isForeignKey && Date.now() - batch.committedAtMs < foreignKeyGraceMs) return [...parts];
    const [{ prepared, rows }] = parts as [Part];
    const id = await setAside(pool, prepared.target, rows, error);
    log.error(
      {
        target: prepared.target.name,
        _id: id,
        sqlstate: sqlState(error),
        batch: batch.id,
      },
      'a log row was set aside: it cannot be merged; see emend dead list',
    );
    return [];
  }
}

/** The parts with the defaults of columns that their rows were written without. */
type WholePart = Part & { readonly defaults: Defaults };

/**
 * What `takeKeys` does, and the merges, sent in one go: the statements are executed one after the other all the same, each with a
 * snapshot of its own. While fences stand, it takes a second trip to see whether they are around these keys.
 */
async function mergeInOneTrip(pool: Pool, parts: readonly Part[], turn: Turn): Promise<void> {
  const whole = await Promise.all(
    parts.map(async (part) => ({
      ...part,
      defaults: await readDefaults(pool, part.prepared.target, part.rows),
    })),
  );
  await turn.comes;
  try {
    await inOneTrip(pool, (client) => {
      const locked = whole.map(({ prepared: { target, number }, rows }) =>
        lockKeys(client, target, number, rows),
      );
      void Promise.all(locked).then(
        () => turn.end(),
        () => undefined,
      );
      return [
        ...locked,
        announceK0(client),
        requireNoFence(
          client,
          whole.map(({ prepared }) => prepared.target),
        ),
        takeK(client),
        ...whole.map(({ prepared, rows, defaults }) => mergeRows(client, prepared, rows, defaults)),
      ];
    });
  } catch (error) {
    if (sqlState(error) !== fencesStand) throw error;
    await withTransaction(pool, (client) => mergeBesideFences(client, whole, turn));
  }
}

async function mergeBesideFences(client: PoolClient, parts: readonly WholePart[], turn: Turn): Promise<void> {
  await takeKeys(
    client,
    parts.map(({ prepared: { target, number }, rows }) => ({ target, number, rows })),
  );
  turn.end();
  await takeK(client);
  for (const { prepared, rows, defaults } of parts) await mergeRows(client, prepared, rows, defaults);
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
