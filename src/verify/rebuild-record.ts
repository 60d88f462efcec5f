import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { logTable } from '../log/log-columns.ts';
import type { Findings } from './findings.ts';
import { dropRebuilt } from './rebuilt.ts';
import type { Written } from './write-differences.ts';

/** Locks of rebuilds, as two integers: a class of their own, and the hash of the target's name. */
const lockClassOfRebuilds = 0x656e0002;

/** What is said of a rebuild before it begins. */
export interface RebuildIntent {
  readonly target: Target;
  readonly reason: string | null;
  /** The version of emend. */
  readonly logic: string;
  /** A table other than the target, for the record; null: the target itself. */
  readonly writtenTo: string | null;
}

/** A target as its objects stand: its place in the order of locks, and the number of its contract. */
export interface Begun {
  /** `emend.rebuild.id` */
  readonly id: string;
  readonly number: number;
  readonly revision: number;
}

/**
 * Runs `body` as the only rebuild of the target, on record in `emend.rebuild` from its beginning. What a dead one has left is
 * taken away, and it is put on record as dead: its session lock went with it.
 *
 * @throws EmendError `rebuild_busy` while another one is at work
 */
export async function onRecord<T>(
  store: Pool,
  intent: RebuildIntent,
  body: (client: ClientBase, begun: Begun) => Promise<T>,
): Promise<T> {
  return withClient(store, async (client) => {
    await takeTurn(client, intent.target);
    // first: a swap whose process died may still be under way in the server, and is waited for here
    await dropRebuilt(client, intent.target);
    await client.query(
      `update emend.rebuild set outcome = 'died', ended_at = clock_timestamp() where target = $1 and outcome is null`,
      [intent.target.name],
    );
    const begun = await begin(client, intent);
    try {
      const result = await body(client, begun);
      await dropRebuilt(client, intent.target);
      await client.query(`select pg_advisory_unlock($1::int, hashtext($2))`, [
        lockClassOfRebuilds,
        intent.target.name,
      ]);
      return result;
    } catch (error) {
      const problem = error instanceof EmendError ? error.code : (sqlState(error) ?? 'unknown');
      // by another session: this one may be what failed. Where neither can write, the next rebuild puts it on record
      await store
        .query(
          `update emend.rebuild set outcome = 'failed', problem = $2, ended_at = clock_timestamp() where id = $1 and outcome is null`,
          [begun.id, problem],
        )
        .catch(() => {});
      throw error;
    }
  });
}

async function takeTurn(client: ClientBase, { name }: Target): Promise<void> {
  const { rows } = await client.query<{ taken: string }>(
    `select pg_try_advisory_lock($1::int, hashtext($2))::text as taken`,
    [lockClassOfRebuilds, name],
  );
  if (rows[0]?.taken === 'true') return;
  throw new EmendError('rebuild_busy', `${name} is being rebuilt by another process`, {
    remedy: 'Wait until it has ended; select * from emend.rebuild says who began it, and when.',
  });
}

async function begin(
  client: ClientBase,
  { target, reason, logic, writtenTo }: RebuildIntent,
): Promise<Begun> {
  const { rows } = await client.query<{ id: string; number: string; revision: string }>(
    `with begun as (
       insert into emend.rebuild (target, reason, logic, revision, written_to)
       select t.name, $2, $3, t.revision, $4 from emend.target t where t.name = $1
       returning id
     )
     select begun.id, t.number, t.revision from begun cross join emend.target t where t.name = $1`,
    [target.name, reason, logic, writtenTo],
  );
  const row = rows[0];
  if (!row) {
    throw new EmendError('not_migrated', `target ${target.name} has not been migrated`, {
      remedy: 'Run emend migrate.',
    });
  }
  return { id: row.id, number: Number(row.number), revision: Number(row.revision) };
}

/** The source as it was read: the greatest number of the log, and the position of the WAL. */
export interface LogPosition {
  readonly upTo: string | null;
  readonly position: string;
}

export async function readPosition(source: Pool, target: Target): Promise<LogPosition> {
  const { rows } = await source.query<{ up_to: string | null; position: string }>(
    `select (select max(_id) from ${logTable(target)}) as up_to, pg_current_wal_lsn() as position`,
  );
  return { upTo: rows[0]!.up_to, position: rows[0]!.position };
}

export async function recordFold(
  client: ClientBase,
  { id }: Begun,
  { upTo, position }: LogPosition,
  { until, corrections, found }: Pick<Findings, 'until' | 'corrections' | 'found'>,
): Promise<void> {
  await client.query(
    `update emend.rebuild
     set known_at = $2::timestamptz, log_up_to = $3::bigint, log_position = $4::pg_lsn, corrections = $5::bigint, found = $6::jsonb
     where id = $1`,
    [id, until, upTo, position, corrections, JSON.stringify(found)],
  );
}

export async function recordEnd(
  client: ClientBase,
  { id }: Begun,
  outcome: 'compared' | 'swapped' | 'written',
  { takenOut, putIn }: Partial<Written> = {},
): Promise<void> {
  await client.query(
    `update emend.rebuild set outcome = $2, taken_out = $3::bigint, put_in = $4::bigint, ended_at = clock_timestamp() where id = $1`,
    [id, outcome, takenOut ?? null, putIn ?? null],
  );
}
