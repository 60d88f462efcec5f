/**
 * The fence of a promote or a revert. Its keys fall into all buckets, so that holding their locks would stop every merge until
 * it is done. The fence stops those of its own keys only: they find a row of theirs in `emend.fence` and try again later.
 *
 * How: the fence is committed, then each of its buckets is locked and let go, one after the other. A merge that held the
 * bucket before is over then, and one that gets it later looks at the fences in a statement after its locks. So from then on
 * no key of the fence is merged by anybody else.
 *
 * The transaction that a fence stands for holds its lock. Not the session of the worker, which may be gone sooner: a server goes
 * on with a statement, or with a commit, whose client died. A fence whose lock is free stands for nothing, and is taken away.
 */
import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { ident } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { bucketMask, keyHash } from './lock-buckets.ts';
import { lockClass } from '../store/lock-class.ts';

/** Locks of fences, as two integers: a class of their own, and the backfill's name's hash. */
const lockClassOfFences = 0x656e0001;

/**
 * Takes the lock of a fence for the rest of the transaction: what the backfill's rows come to is decided in it alone.
 *
 * @throws EmendError `backfill_busy` when another transaction has it
 */
export async function holdFence(client: ClientBase, backfill: string): Promise<void> {
  if (await tryHold(client, backfill)) return;
  throw new EmendError('backfill_busy', `backfill ${backfill}: a transaction that moves it has not ended`, {
    remedy: 'Nothing has to be done: it is tried again.',
  });
}

async function tryHold(client: ClientBase, backfill: string): Promise<boolean> {
  const { rows } = await client.query<{ taken: string }>(
    `select pg_try_advisory_xact_lock($1::int, hashtext($2))::text as taken`,
    [lockClassOfFences, backfill],
  );
  return rows[0]?.taken === 'true';
}

export interface FencedTarget {
  readonly target: Target;
  readonly number: number;
  /** `select` of the keys, with the target's key columns; its only parameter is the backfill's name, $1. */
  readonly keys: string;
}

/**
 * The fence's lock must be held (`holdFence`), by a transaction that has read nothing yet.
 *
 * @throws EmendError `key_fenced` when another backfill has a fence around one of the keys
 */
export async function raiseFence(
  store: Pool,
  backfill: string,
  parts: readonly FencedTarget[],
): Promise<void> {
  try {
    await withTransaction(store, async (client) => {
      await client.query(`set local statement_timeout = 0`);
      for (const { target, keys } of parts) await insertFence(client, backfill, target, keys);
    });
  } catch (error) {
    if (sqlState(error) !== '23505') throw error;
    throw new EmendError(
      'key_fenced',
      `backfill ${backfill}: another one is being promoted or reverted over the same keys`,
      {
        remedy: 'Nothing has to be done: it is tried again when the other one is done.',
        cause: error,
      },
    );
  }
  for (const { target, number } of parts) await passBuckets(store, backfill, target, number);
}

/** A fence of this backfill that stands already is one of a process that died: its lock was free. */
async function insertFence(
  client: ClientBase,
  backfill: string,
  target: Target,
  keys: string,
): Promise<void> {
  await client.query(`delete from emend.fence where backfill = $1 and target = $2`, [backfill, target.name]);
  await client.query(
    `insert into emend.fence (target, key_hash, backfill)
     select distinct $2, ${keyHash(target.key, 'k')}, $1
     from (${keys}) as k`,
    [backfill, target.name],
  );
  await client.query(`insert into emend.fence_of (target, backfill) values ($2, $1) on conflict do nothing`, [
    backfill,
    target.name,
  ]);
}

/** One bucket at a time: whoever waits for one of them waits for a moment only. */
async function passBuckets(store: Pool, backfill: string, target: Target, number: number): Promise<void> {
  const { rows } = await store.query<{ bucket: string }>(
    `select distinct (f.key_hash & ${bucketMask})::text as bucket
     from emend.fence f
     where f.backfill = $1 and f.target = $2`,
    [backfill, target.name],
  );
  for (const { bucket } of rows)
    await withTransaction(store, (client) =>
      client.query(`select pg_advisory_xact_lock($1::int, $2::int)`, [lockClass + number, bucket]),
    );
}

/** In the transaction that was fenced, so that who waits goes on when its work can be seen. */
export async function lowerFence(client: ClientBase, backfill: string): Promise<void> {
  await client.query(`delete from emend.fence where backfill = $1`, [backfill]);
  await client.query(`delete from emend.fence_of where backfill = $1`, [backfill]);
}

/** The fence of a process that died would keep merges of its keys waiting for ever. */
export async function removeOrphanFences(store: Pool): Promise<void> {
  const { rows } = await store.query<{ backfill: string }>(`select distinct backfill from emend.fence_of`);
  for (const { backfill } of rows) await removeOrphanFence(store, backfill);
}

export async function removeOrphanFence(store: Pool, backfill: string): Promise<void> {
  await withTransaction(store, async (client) => {
    if (await tryHold(client, backfill)) await lowerFence(client, backfill);
  });
}

/** @throws EmendError `key_fenced` when a key of the rows has a fence around it */
export async function refuseFenced(client: ClientBase, target: Target, rows: LogRows): Promise<void> {
  const { key, name } = target;
  const casts = key.map((column) => `a.${ident(column.name)}::${column.baseType} as ${ident(column.name)}`);
  const arrays = key.map((_, index) => `$${index + 2}::text[]`);
  const { rows: found } = await client.query<{ backfill: string }>(
    `select f.backfill
     from (select ${casts.join(', ')} from unnest(${arrays.join(', ')}) as a (${key.map((column) => ident(column.name)).join(', ')})) as k
     join emend.fence f on f.target = $1 and f.key_hash = ${keyHash(key, 'k')}
     limit 1`,
    [name, ...key.map((column) => rows.values[rows.columns.indexOf(column.name)] ?? [])],
  );
  if (!found[0]) return;
  throw new EmendError(
    'key_fenced',
    `${name}: backfill ${found[0].backfill} is being promoted or reverted over a key of these rows`,
    {
      remedy: 'Nothing has to be done: the rows wait, and are merged when it is done.',
    },
  );
}
