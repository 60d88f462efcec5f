/**
 * The value log of a target: `corrections.<target>` in the source, the one place where a correction is written.
 *
 * Promise: a row that the log takes can be merged; what can be known to be wrong is refused in the transaction that
 * writes it, by a constraint whose name says why (law 8); and no row that was committed ever changes (law 4).
 * If it breaks: bad rows surface minutes later as dead letters that nobody feels responsible for, or the folds of the
 * log and of the store part ways without anybody having been told.
 */
import type { ClientBase } from 'pg';
import type { Statement } from '../db/statement.ts';
import type { Target } from '../change/target.ts';
import { planDigestFunction } from './digest-function.ts';
import { planConstraints } from './log-constraints.ts';
import { readLogColumns } from './log-columns.ts';
import { planLogTable } from './log-table.ts';
import { planTriggers } from './log-triggers.ts';
import { planTypes } from './log-types.ts';

/**
 * The statements that bring `corrections.<target>` to what the target needs; none when it is there already.
 * They stand on the fixed migrations of the source. Changes nothing. Source and store may be one database.
 * Both sessions have to be pinned (`db/session.ts`): the names of types depend on search_path.
 *
 * @throws EmendError `migration_destructive` when what is recorded would change, with the statements to run by hand;
 *   `target_invalid` when the source cannot hold the target's types or defaults
 */
export async function planLog(source: ClientBase, store: ClientBase, target: Target): Promise<Statement[]> {
  const columns = await readLogColumns(store, target);
  return [
    ...(await planTypes(source, store, target)),
    ...(await planLogTable(source, store, target, columns)),
    ...(await planConstraints(source, target, columns)),
    ...(await planTriggers(source, target)),
    ...(await planDigestFunction(source, target)),
  ];
}
