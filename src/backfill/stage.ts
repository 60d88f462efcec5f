import type { Pool, PoolClient } from 'pg';
import type { LogRows } from '../change/batch.ts';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { identList } from '../db/identifier.ts';
import { verdictOf } from '../db/sqlstate.ts';
import { withTransaction } from '../db/transaction.ts';
import { logTable } from '../log/log-columns.ts';
import { arrivedParameters, stageSql } from '../merge/arrived.ts';
import { setAside } from '../merge/dead-letter.ts';
import { halve } from '../merge/halve.ts';

/** Rows of a backfill that are read and staged at a time. */
const rowsAtATime = 5_000;

/** Rows of one backfill in one log, from an id on. */
export interface LogStretch {
  readonly backfill: string;
  readonly target: Target;
  readonly first: string;
  readonly last: string;
  /** How many there are, where somebody counted them. */
  readonly rows?: number;
}

/** Every id that a log can have. */
export const allIds = { first: '1', last: '9223372036854775807' };

/** Reads the rows page by page, as capture would hand them over: the server's own text (law 9). */
export async function* readBackfillRows(
  source: Pool,
  { backfill, target, first, last }: LogStretch,
): AsyncGenerator<LogRows> {
  const own = ['_id', '_op', '_nonce', '_recorded_at', '_backfill', '_actor', '_reason'];
  const columns = [...statedColumns(target).map(({ name }) => name), ...own];
  const sql = `
    select ${identList(columns)}
    from ${logTable(target)}
    where _backfill = $1 and _id >= $2::bigint and _id <= $3::bigint
    order by _id
    limit ${rowsAtATime}`;
  for (let from = BigInt(first); ;) {
    const { rows } = await source.query<Record<string, string | null>>(sql, [backfill, String(from), last]);
    if (rows.length > 0) {
      yield {
        target: target.name,
        columns,
        values: columns.map((column) => rows.map((row) => row[column] ?? null)),
      };
    }
    if (rows.length < rowsAtATime) return;
    from = BigInt(rows.at(-1)!['_id']!) + 1n;
  }
}

/**
 * Writes rows to `emend.<target>_staged`, where nobody sees them. A row that comes again stays as it is (law 6); one that the
 * store's types refuse is set aside alone (law 8), and blocks its backfill until it is dealt with by name.
 *
 * @param digested columns that are in the digest; default: those that the target has now
 */
export async function stageRows(
  store: Pool,
  target: Target,
  rows: LogRows,
  digested?: readonly string[],
): Promise<void> {
  try {
    await withTransaction(store, (client) => insertStaged(client, target, rows, digested));
  } catch (error) {
    if (verdictOf(error) !== 'halve') throw error;
    const halves = halve([{ rows }]);
    if (!halves) {
      await setAside(store, target, rows, error);
      return;
    }
    for (const half of halves) for (const part of half) await stageRows(store, target, part.rows, digested);
  }
}

async function insertStaged(
  client: PoolClient,
  target: Target,
  rows: LogRows,
  digested?: readonly string[],
): Promise<void> {
  await client.query(stageSql(target, digested), [...arrivedParameters(target, rows, new Map())]);
}
