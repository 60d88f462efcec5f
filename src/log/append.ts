/**
 * Writing corrections from an application, in its own transaction.
 *
 *     await correct(tx, prices, { productId: 'A', price: '5.00', validFrom: '2026-09-10', validTo: '2026-09-12' });
 *
 * `target` is the value from the configuration. `tx` is a Drizzle transaction or database, or anything with
 * `query(text, values)`, such as a pg client. However many rows: one look at the log's columns and one insert, whose
 * rows get ascending ids in the order given. Only above some ten million characters there are several inserts: then `tx`
 * has to be a transaction, or the call is not one.
 *
 * A property that is left out takes the column's default, null is null. Values travel as text and are cast once, by
 * Postgres: give what is finer than JavaScript (microseconds, 40 digits, infinity) as text. For a `'schema.table'` target
 * the properties are the columns' names, and a string for a json column is JSON text.
 */
import type { TargetConfig } from '../config/define-config.ts';
import { targetNameOf } from '../config/target-name.ts';
import type { Op } from '../change/batch.ts';
import { EmendError } from '../errors.ts';
import { insertStatements } from './append-statement.ts';
import type { CorrectionRow, RetractionRow } from './correction-row.ts';
import { runQuery } from './executor.ts';
import type { Executor } from './executor.ts';
import { readAppendColumns } from './append-columns.ts';
import { stateRows } from './state-rows.ts';

export interface AppendOptions {
  /** Why; kept with each row and shown by `explain`. */
  readonly reason?: string;
  /** Name of an open backfill: the rows stay invisible until it is promoted. */
  readonly backfill?: string;
}

/**
 * States what is true: for this key, over this period, the values are these.
 *
 * @returns the `_id`s of the rows, in their order
 * @throws EmendError `correction_invalid` for a row that cannot be sent, nothing having been sent; otherwise the error of
 *   Postgres, whose constraint says what is wrong
 */
export async function correct<const T extends TargetConfig>(
  tx: Executor,
  target: T,
  rows: CorrectionRow<T> | readonly CorrectionRow<T>[],
  options: AppendOptions = {},
): Promise<string[]> {
  return append(tx, target, 'upsert', rows, options);
}

/** States that there is nothing: for this key, over this period. Rows have key and period only, and the version if there is one. */
export async function retract<const T extends TargetConfig>(
  tx: Executor,
  target: T,
  rows: RetractionRow<T> | readonly RetractionRow<T>[],
  options: AppendOptions = {},
): Promise<string[]> {
  return append(tx, target, 'retract', rows, options);
}

/** Takes a start back, where each holds until the next: what was there before runs on. */
export async function withdraw<const T extends TargetConfig>(
  tx: Executor,
  target: T,
  rows: RetractionRow<T> | readonly RetractionRow<T>[],
  options: AppendOptions = {},
): Promise<string[]> {
  return append(tx, target, 'withdraw', rows, options);
}

async function append(
  tx: Executor,
  target: TargetConfig,
  op: Op,
  rows: unknown,
  options: AppendOptions,
): Promise<string[]> {
  const name = targetNameOf(target);
  if (name === undefined) {
    throw new EmendError('target_unknown', 'the target is in no configuration, so its log is not known', {
      remedy: 'Put it into targets of defineConfig, and import that file where corrections are written.',
    });
  }
  const list: readonly unknown[] = Array.isArray(rows) ? rows : [rows];
  if (list.length === 0) return [];
  const columns = await readAppendColumns(tx, name);
  const stated = stateRows({ target, name, op, columns, rows: list });
  const ids: string[] = [];
  for (const statement of insertStatements(name, stated, { op, ...options })) {
    for (const row of await runQuery<{ _id: string }>(tx, statement)) ids.push(row._id);
  }
  return ids;
}
