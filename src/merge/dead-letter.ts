import type { Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';

/**
 * Sets a single log row aside with its reason (law 8), and returns its `_id`. A row that comes again counts its attempts.
 * The reason is Postgres' message, which names constraint and column; its detail, which holds values, stays out of it.
 */
export async function setAside(pool: Pool, target: Target, rows: LogRows, error: unknown): Promise<string> {
  const row = Object.fromEntries(rows.columns.map((name, place) => [name, rows.values[place]?.[0] ?? null]));
  const id = row._id;
  if (id === null || id === undefined) {
    throw new EmendError('batch_invalid', `a row of corrections.${target.name} arrived without its _id`, {
      remedy:
        'Let readers and workers run the same version of emend; the rows themselves are safe in the log.',
      cause: error,
    });
  }
  await pool.query(
    `insert into emend.dead_letter (_id, target, log_row, sqlstate, reason)
     values ($1::bigint, $2, $3::jsonb, $4, $5)
     on conflict (_id) do update set
       log_row = excluded.log_row, attempts = emend.dead_letter.attempts + 1, tried_at = excluded.tried_at, sqlstate = excluded.sqlstate, reason = excluded.reason`,
    [
      id,
      target.name,
      JSON.stringify(row),
      sqlState(error) ?? '',
      error instanceof Error ? error.message : String(error),
    ],
  );
  return id;
}
