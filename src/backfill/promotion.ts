import type { ClientBase, Pool, PoolClient } from 'pg';
import type { Target } from '../change/target.ts';
import { identList } from '../db/identifier.ts';
import { sqlState, verdictOf } from '../db/sqlstate.ts';
import { stagedNumbers, stagedRows } from '../merge/arrived.ts';
import { withinFence as fenced } from '../merge/fence.ts';
import { mergeSql } from '../merge/merge-sql.ts';
import { announceK0, takeK } from '../store/clock.ts';
import { ownObject } from '../store/names.ts';
import { requireAsStated } from './as-stated.ts';

/** A target with what its merges need to know of it. */
export interface BackfillTarget {
  readonly target: Target;
  /** Its place in the order of locks. */
  readonly number: number;
  readonly revision: number;
}

/** What is done to all targets of a backfill at once, in one transaction and at one K. */
export interface Promotion {
  readonly store: Pool;
  readonly backfill: string;
  readonly targets: readonly BackfillTarget[];
}

/**
 * `body` behind a fence around the keys (`merge/fence.ts`), at one K. Settled times wait for it: K is taken here.
 *
 * @param keys `select` of the keys of a target, with its key columns; $1 is the backfill's name
 * @throws EmendError `key_fenced` when somebody else is at work on one of the keys, `backfill_busy` when another worker is at
 *   work on this one
 */
export async function withinFence<T>(
  { store, backfill, targets }: Promotion,
  keys: (target: Target) => string,
  body: (client: PoolClient, k: string) => Promise<T>,
): Promise<T> {
  const parts = targets.map(({ target, number }) => ({ target, number, keys: keys(target) }));
  return fenced(store, backfill, parts, async (client) => {
    await announceK0(client);
    return body(client, await takeK(client));
  });
}

/** The keys of staged rows. */
export function stagedKeys(target: Target): string {
  return `select distinct ${identList(target.key.map(({ name }) => name))} from ${ownObject(target, 'staged')} where _backfill = $1`;
}

/**
 * Merges all staged rows, as live rows are merged, in one statement a target (laws 1 to 4), and takes them out of staging.
 * Their ledger entries are written by the same statement (law 6).
 */
export async function mergeStaged(client: ClientBase, promotion: Promotion, k: string): Promise<void> {
  await inWorkableOrder(client, promotion.targets, async ({ target, revision }) => {
    const form = {
      arrived: stagedRows(target, '$2'),
      numbers: stagedNumbers(target, '$2'),
      k: '$1::timestamptz',
      revision,
    };
    await client.query(mergeSql(target, form), [k, promotion.backfill]);
    await requireAsStated(client, target, promotion.backfill);
    await client.query(`delete from ${ownObject(target, 'staged')} where _backfill = $1`, [
      promotion.backfill,
    ]);
  });
}

const foreignKeyViolation = '23503';

/** What the table of a target says to a row: Postgres' error, with whose table it is. */
export class TableRefusal extends Error {
  readonly target: string;
  readonly code: string | undefined;
  /** Names constraint and table, or is what a trigger says; the detail, which holds values, stays out of it. */
  readonly said: string;

  constructor(target: string, cause: Error) {
    super(`${target} refuses a row: ${cause.message}`, { cause });
    this.target = target;
    this.code = sqlState(cause);
    this.said = cause.message;
  }
}

function asRefusal({ target }: BackfillTarget, error: unknown): unknown {
  return verdictOf(error) === 'halve' ? new TableRefusal(target.name, error as Error) : error;
}

/**
 * Does a step for each target. Foreign keys between them want partners to come first and to go last: a step that one keeps out is
 * done again after the others, as long as that helps.
 *
 * @throws TableRefusal of the first that cannot be done, and what else Postgres says
 */
export async function inWorkableOrder(
  client: ClientBase,
  targets: readonly BackfillTarget[],
  step: (target: BackfillTarget) => Promise<void>,
): Promise<void> {
  for (let left = targets; left.length > 0;) {
    const early: BackfillTarget[] = [];
    let refusal: unknown;
    for (const target of left) {
      await client.query('savepoint step');
      try {
        await step(target);
      } catch (error) {
        if (sqlState(error) !== foreignKeyViolation) throw asRefusal(target, error);
        refusal ??= asRefusal(target, error);
        early.push(target);
        await client.query('rollback to savepoint step');
      }
      await client.query('release savepoint step');
    }
    if (early.length === left.length) throw refusal;
    left = early;
  }
}
