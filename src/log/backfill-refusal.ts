import type { ClientBase, DatabaseError, Pool } from 'pg';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';

/** What the functions of the source raise where a backfill does not allow what is asked (drizzle/source/0001_backfills.sql). */
const refused = 'EM002';

/** A refusal of the source as an error with its remedy; any other error as it is. */
export function asRefusal(error: unknown): unknown {
  if (sqlState(error) !== refused) return error;
  const { message, hint } = error as DatabaseError;
  return new EmendError('backfill_refused', message, {
    remedy: hint ?? 'See emend backfill list.',
    cause: error,
  });
}

/** @throws EmendError `backfill_refused` unless the backfill takes rows of the target */
export async function requireOpen(source: Pool | ClientBase, name: string, target: string): Promise<void> {
  const { rows } = await source.query<{ kind: string; closed_at: string | null; targets: string }>(
    `select kind, closed_at::text as closed_at, to_jsonb(targets)::text as targets from corrections._backfill where name = $1`,
    [name],
  );
  const backfill = rows[0];
  if (backfill?.kind !== 'backfill') {
    throw new EmendError('backfill_refused', `there is no backfill ${name}`, {
      remedy: 'See emend backfill list, or open it with emend backfill open.',
    });
  }
  const targets = JSON.parse(backfill.targets) as string[];
  if (!targets.includes(target)) {
    throw new EmendError('backfill_refused', `backfill ${name} is not of target ${target}`, {
      remedy: `Its targets were stated when it was opened: ${targets.join(', ')}.`,
    });
  }
  if (backfill.closed_at !== null) {
    throw new EmendError(
      'backfill_refused',
      `backfill ${name} was closed at ${backfill.closed_at}: no row can be added`,
      {
        remedy: 'Load the rows into a new backfill.',
      },
    );
  }
}

/** @throws EmendError `backfill_refused` when it was asked to be promoted, reverted or abandoned: whatever is loaded, it has no effect */
export async function requireNotEnded(source: Pool | ClientBase, name: string): Promise<void> {
  const { rows } = await source.query<{ state: string }>(
    `select state from corrections._backfill_state where name = $1 and state in ('promoted', 'reverted', 'abandoned')`,
    [name],
  );
  const state = rows[0]?.state;
  if (state === undefined) return;
  throw new EmendError(
    'backfill_refused',
    `backfill ${name} was asked to be ${state}: nothing is loaded into it`,
    {
      remedy: 'Load the rows into a new backfill.',
    },
  );
}
