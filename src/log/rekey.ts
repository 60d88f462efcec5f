import type { TargetConfig } from '../config/define-config.ts';
import { EmendError } from '../errors.ts';
import { correct, retract, withdraw } from './append.ts';
import type { AppendOptions } from './append.ts';
import type { CorrectionRow, RetractionRow } from './correction-row.ts';
import { runQuery } from './executor.ts';
import type { Executor } from './executor.ts';

/** What was known by the wrong natural key, and what it is by the right one. */
export interface KeyChange<T extends TargetConfig> {
  /**
   * The old key: of a timeline with the period over which it was wrong, `-infinity` for all of it; where each holds until the
   * next, with each of its starts.
   */
  readonly from: RetractionRow<T> | readonly RetractionRow<T>[];
  readonly to: CorrectionRow<T> | readonly CorrectionRow<T>[];
}

/**
 * Changes a natural key: takes back what stands under the old one, and states it under the new one. Both become visible at
 * once, since both are written in one transaction, which `tx` has to be.
 *
 * @returns the `_id`s of the rows, first those of the old key
 * @throws EmendError `correction_invalid` when `tx` is no transaction, `from` or `to` has no row, or a row cannot be sent, nothing having been sent
 */
export async function rekey<const T extends TargetConfig>(
  tx: Executor,
  target: T,
  { from, to }: KeyChange<T>,
  options: AppendOptions = {},
): Promise<string[]> {
  refuseHalf(from, to);
  await refuseOutsideTransaction(tx);
  const takeBack = holdsUntilNext(target) ? withdraw : retract;
  return [...(await takeBack(tx, target, from, options)), ...(await correct(tx, target, to, options))];
}

/** Half of it would be a retraction, or a second key for the same thing. */
function refuseHalf(from: unknown, to: unknown): void {
  for (const [name, rows] of Object.entries({ from, to })) {
    if (!Array.isArray(rows) || rows.length > 0) continue;
    throw new EmendError('correction_invalid', `rekey() has no row in ${name}`, {
      remedy: 'Give both; to take something back use retract(), to state something new correct().',
    });
  }
}

/** Two statements have one transaction id only in a transaction. */
async function refuseOutsideTransaction(tx: Executor): Promise<void> {
  const [before, after] = [await transactionId(tx), await transactionId(tx)];
  if (before === after) return;
  throw new EmendError('correction_invalid', 'rekey() was called outside a transaction', {
    remedy: 'Begin one and pass it: otherwise the store could show both keys, or none.',
  });
}

async function transactionId(tx: Executor): Promise<string | undefined> {
  const rows = await runQuery<{ id: string }>(tx, {
    texts: ['select pg_current_xact_id()::text as id'],
    values: [],
  });
  return rows[0]?.id;
}

function holdsUntilNext(target: TargetConfig): boolean {
  return target.kind === 'timeline' && (target.mode === 'until_next' || target.period.length === 1);
}
