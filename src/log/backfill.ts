/**
 * A backfill from an application, in its own transaction: rows that become visible all at once, or never.
 *
 *     await openBackfill(tx, { name: '2026-11-29-reprice', targets: ['fares'], reason: 'contract 17', logicVersion: 'a1b2c3' });
 *     await correct(tx, fares, rows, { backfill: '2026-11-29-reprice' });
 *     await sealBackfill(tx, '2026-11-29-reprice');
 *
 * These are calls of the functions in the source's schema corrections, where the rules stand; a refusal is the error of
 * Postgres (SQLSTATE EM002) with its hint. Promote, revert and abandon are asked for here and carried out in the store by a
 * worker: what came of them stands in `emend.backfill`.
 */
import { runQuery } from './executor.ts';
import type { Executor } from './executor.ts';
import { arrayLiteral } from './value-text.ts';

/** What the rows of a target must stay within. */
export interface Boundary {
  /** Valid period (of facts: event time), as Postgres reads the type of the column; half-open. */
  readonly from?: string;
  readonly to?: string;
  /** SQL over the target's columns that holds for every row: `region = 'EU'`. Only the owner of emend's tables may state it. */
  readonly where?: string;
}

export interface BackfillOpening {
  /** a-z, 0-9, `_`, `-` and `.`, up to 100. */
  readonly name: string;
  readonly targets: readonly string[];
  /** Why; kept for ever. */
  readonly reason: string;
  /** What finds the program again that computed the rows: a git commit. */
  readonly logicVersion: string;
  /** By target. */
  readonly boundary?: Readonly<Record<string, Boundary>>;
  /** Where the raw input comes from. */
  readonly origin?: Readonly<Record<string, unknown>>;
  /** Checks of one's own, run in the store. Only the owner of emend's tables may state them. */
  readonly checks?: Readonly<Record<string, unknown>>;
}

/** @returns false when it had been opened before, the same; another one of that name is refused */
export function openBackfill(tx: Executor, opening: BackfillOpening): Promise<boolean> {
  return state(tx, 'open_backfill', opening);
}

/** States an open backfill anew, of the same targets; what it stated before stays on record. @returns false when it states the same */
export function restateBackfill(tx: Executor, opening: BackfillOpening): Promise<boolean> {
  return state(tx, 'restate_backfill', opening);
}

async function state(
  tx: Executor,
  verb: 'open_backfill' | 'restate_backfill',
  opening: BackfillOpening,
): Promise<boolean> {
  const { name, targets, reason, logicVersion, boundary = {}, origin = {}, checks = {} } = opening;
  const rows = await runQuery<{ done: string }>(tx, {
    texts: [
      `select corrections.${verb}(name => `,
      '::text, targets => ',
      '::text[], reason => ',
      '::text, logic_version => ',
      '::text, boundary => ',
      '::jsonb, origin => ',
      '::jsonb, checks => ',
      '::jsonb)::text as done',
    ],
    values: [
      name,
      arrayLiteral(targets),
      reason,
      logicVersion,
      JSON.stringify(boundary),
      JSON.stringify(origin),
      JSON.stringify(checks),
    ],
  });
  return rows[0]?.done === 'true';
}

/** Which rows a chunk asks for; all that were not asked for yet where `first` and `last` are left out. */
export interface Chunk {
  readonly target: string;
  readonly first?: string;
  readonly last?: string;
  /** How far a loader has come: kept with the request, in the transaction of the rows. */
  readonly loader?: Readonly<Record<string, unknown>>;
}

/** Asks for rows to be staged while others are still loaded. @returns how many rows it asks for */
export async function chunkBackfill(
  tx: Executor,
  name: string,
  { target, first, last, loader = {} }: Chunk,
): Promise<number> {
  const rows = await runQuery<{ rows: string }>(tx, {
    texts: [
      'select corrections.chunk_backfill(name => ',
      '::text, target => ',
      '::text, first => ',
      '::bigint, last => ',
      '::bigint, loader => ',
      '::jsonb)::text as rows',
    ],
    values: [name, target, first ?? null, last ?? null, JSON.stringify(loader)],
  });
  return Number(rows[0]!.rows);
}

export interface Asking {
  /** Why; kept for ever. */
  readonly reason?: string;
}

/**
 * Ends the loading: waits for open transactions that add rows, and lets no row in any more. The transaction has to be READ
 * COMMITTED. Sealed before: changes nothing.
 *
 * @returns the `_id` of the request
 */
export function sealBackfill(tx: Executor, name: string, { reason }: Asking = {}): Promise<string> {
  return ask(tx, {
    texts: ['select corrections.seal_backfill(name => ', '::text, reason => ', '::text)::text as _id'],
    values: [name, reason ?? null],
  });
}

export interface Promotion extends Asking {
  /** Checks that may fail, each with the reason why. */
  readonly accept?: Readonly<Record<string, string>>;
  /** Not before this time, as Postgres reads a timestamptz. */
  readonly at?: string;
  /** Also where the configuration says that none begins now; needs a reason, and is kept with it. */
  readonly ignoreWindow?: boolean;
}

/** Asks for a sealed backfill to become visible. @returns the `_id` of the request */
export function promoteBackfill(
  tx: Executor,
  name: string,
  { reason, accept = {}, at, ignoreWindow = false }: Promotion = {},
): Promise<string> {
  return ask(tx, {
    texts: [
      'select corrections.promote_backfill(name => ',
      '::text, reason => ',
      '::text, accept => ',
      '::jsonb, at => ',
      '::timestamptz, ignore_window => ',
      '::boolean)::text as _id',
    ],
    values: [name, reason ?? null, JSON.stringify(accept), at ?? null, String(ignoreWindow)],
  });
}

/** Asks for a promoted backfill to be as if it had never been; later corrections stay. @returns the `_id` of the request */
export function revertBackfill(tx: Executor, name: string, { reason }: Required<Asking>): Promise<string> {
  return ask(tx, {
    texts: ['select corrections.revert_backfill(name => ', '::text, reason => ', '::text)::text as _id'],
    values: [name, reason],
  });
}

/** Asks for a backfill that is not promoted to be thrown away. @returns the `_id` of the request */
export function abandonBackfill(tx: Executor, name: string, { reason }: Required<Asking>): Promise<string> {
  return ask(tx, {
    texts: ['select corrections.abandon_backfill(name => ', '::text, reason => ', '::text)::text as _id'],
    values: [name, reason],
  });
}

/** Takes an open one away that has taken no row, so that its name is free. @returns false when it has some, and stays */
export async function forgetBackfill(tx: Executor, name: string): Promise<boolean> {
  const rows = await runQuery<{ forgotten: string }>(tx, {
    texts: ['select corrections.forget_backfill(name => ', '::text)::text as forgotten'],
    values: [name],
  });
  return rows[0]?.forgotten === 'true';
}

async function ask(tx: Executor, query: Parameters<typeof runQuery>[1]): Promise<string> {
  const rows = await runQuery<{ _id: string }>(tx, query);
  return rows[0]!._id;
}
