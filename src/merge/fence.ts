/**
 * The fence of a promote, a revert or a rebuild. Its keys fall into all buckets, so that holding their locks would stop every
 * merge until it is done. The fence stops those of its own keys only: they find a row of theirs in `emend.fence` and try again later.
 *
 * How: the fence is committed, then each of its buckets is locked and let go, one after the other. A merge that held the
 * bucket before is over then, and one that gets it later looks at the fences in a statement after its locks. So from then on
 * no key of the fence is merged by anybody else.
 *
 * The transaction that a fence stands for holds its lock. Not the session of the worker, which may be gone sooner: a server goes
 * on with a statement, or with a commit, whose client died. A fence whose lock is free stands for nothing, and is taken away.
 */
import type { ClientBase, Pool, PoolClient } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { ident } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { bucketMask, keyHash } from './lock-keys.ts';
import { lookUp } from './look-up.ts';
import { lockClass, objectsLock } from '../store/lock-class.ts';

/** Locks of fences, as two integers: a class of their own, and the hash of the holder's name. */
const lockClassOfFences = 0x656e0001;

/** A worker that takes the fence of a dead process away holds its lock for a moment. */
const waitForHolderMs = 1_000;

/**
 * Takes the lock of a fence for the rest of the transaction: what the rows of its holder come to is decided in it alone.
 *
 * @param holder the backfill's name; that of a rebuild has blanks in it, and so is none
 * @throws EmendError `backfill_busy` when another transaction has it, and keeps it for more than a second
 */
export async function holdFence(client: ClientBase, holder: string): Promise<void> {
  if (await tryHold(client, holder)) return;
  try {
    await waitToHold(client, holder);
  } catch (error) {
    if (sqlState(error) !== '55P03') throw error;
    throw new EmendError('backfill_busy', `${holder}: a transaction that works on it has not ended`, {
      remedy: 'Nothing has to be done: it is tried again.',
      cause: error,
    });
  }
}

/** The limit is that of this wait alone: what the transaction does behind its fence may wait as long as it did. */
async function waitToHold(client: ClientBase, holder: string): Promise<void> {
  const { rows } = await client.query<{ before: string }>(
    `select current_setting('lock_timeout') as before, set_config('lock_timeout', '${waitForHolderMs}ms', true)`,
  );
  await client.query(`select pg_advisory_xact_lock($1::int, hashtext($2))`, [lockClassOfFences, holder]);
  await client.query(`select set_config('lock_timeout', $1, true)`, [rows[0]!.before]);
}

async function tryHold(client: ClientBase, holder: string): Promise<boolean> {
  const { rows } = await client.query<{ taken: string }>(
    `select pg_try_advisory_xact_lock($1::int, hashtext($2))::text as taken`,
    [lockClassOfFences, holder],
  );
  return rows[0]?.taken === 'true';
}

export interface FencedTarget {
  readonly target: Target;
  readonly number: number;
  /** `select` of the keys, with the target's key columns; its only parameter is the holder's name, $1. */
  readonly keys: string;
}

/**
 * Runs `body` in one transaction while nobody else can change the belief of the keys that the fence is around. Merges of other
 * keys go on; readers see the state before until it commits.
 *
 * @throws EmendError `key_fenced` when another holder is at work on one of the keys, `backfill_busy` when another transaction
 *   works for this one
 */
export async function withinFence<T>(
  store: Pool,
  holder: string,
  parts: readonly FencedTarget[],
  body: (client: PoolClient) => Promise<T>,
): Promise<T> {
  try {
    return await withTransaction(store, async (client) => {
      await holdFence(client, holder);
      await raiseFence(store, holder, parts);
      // it may take minutes; nothing that it holds is waited for by more than its own keys
      await client.query(`set local statement_timeout = 0`);
      // one at a time in a store, over all of its keys at once: its sorts may stay in memory
      await client.query(`set local work_mem = '64MB'`);
      for (const { number } of parts)
        await client.query(`select pg_advisory_xact_lock_shared($1::int, ${objectsLock})`, [
          lockClass + number,
        ]);
      const result = await body(client);
      await lowerFence(client, holder);
      return result;
    });
  } catch (error) {
    // by its lock: where another transaction works for this holder, it is that one's fence
    await removeOrphanFence(store, holder);
    throw error;
  }
}

/**
 * The fence's lock must be held (`holdFence`), by a transaction that has read nothing yet.
 *
 * @throws EmendError `key_fenced` when another holder has a fence around one of the keys
 */
async function raiseFence(store: Pool, holder: string, parts: readonly FencedTarget[]): Promise<void> {
  try {
    await withTransaction(store, async (client) => {
      await client.query(`set local statement_timeout = 0`);
      for (const { target, keys } of parts) await insertFence(client, holder, target, keys);
    });
  } catch (error) {
    if (sqlState(error) !== '23505') throw error;
    throw new EmendError(
      'key_fenced',
      `${holder}: a backfill that is promoted or reverted, or a rebuild, is at work on the same keys`,
      {
        remedy: 'Nothing has to be done: it is tried again when the other one is done.',
        cause: error,
      },
    );
  }
  for (const { target, number } of parts) await passBuckets(store, holder, target, number);
}

/** A fence of this holder that stands already is one of a process that died: its lock was free. */
async function insertFence(client: ClientBase, holder: string, target: Target, keys: string): Promise<void> {
  await client.query(`delete from emend.fence where holder = $1 and target = $2`, [holder, target.name]);
  await client.query(
    `insert into emend.fence (target, key_hash, holder)
     select distinct $2, ${keyHash(target.key, 'k')}, $1
     from (${keys}) as k`,
    [holder, target.name],
  );
  await client.query(`insert into emend.fence_of (target, holder) values ($2, $1) on conflict do nothing`, [
    holder,
    target.name,
  ]);
}

/** One bucket at a time: whoever waits for one of them waits for a moment only. */
async function passBuckets(store: Pool, holder: string, target: Target, number: number): Promise<void> {
  const { rows } = await store.query<{ bucket: string }>(
    `select distinct (f.key_hash & ${bucketMask})::text as bucket
     from emend.fence f
     where f.holder = $1 and f.target = $2`,
    [holder, target.name],
  );
  for (const { bucket } of rows)
    await withTransaction(store, (client) =>
      client.query(`select pg_advisory_xact_lock($1::int, $2::int)`, [lockClass + number, bucket]),
    );
}

/** In the transaction that was fenced, so that who waits goes on when its work can be seen. */
async function lowerFence(client: ClientBase, holder: string): Promise<void> {
  await client.query(`delete from emend.fence where holder = $1`, [holder]);
  await client.query(`delete from emend.fence_of where holder = $1`, [holder]);
}

/** The fence of a process that died would keep merges of its keys waiting for ever. */
export async function removeOrphanFences(store: Pool): Promise<void> {
  const { rows } = await store.query<{ holder: string }>(`select distinct holder from emend.fence_of`);
  for (const { holder } of rows) await removeOrphanFence(store, holder);
}

async function removeOrphanFence(store: Pool, holder: string): Promise<void> {
  await withTransaction(store, async (client) => {
    if (await tryHold(client, holder)) await lowerFence(client, holder);
  });
}

/** SQLSTATE of `emend.require_no_fence`. */
export const fencesStand = 'EM003';

/** @throws `fencesStand` when a fence is around keys of these targets, whichever they are */
export async function requireNoFence(client: ClientBase, targets: readonly Target[]): Promise<void> {
  await client.query({
    name: 'emend require no fence',
    text: `select emend.require_no_fence($1::text[])`,
    values: [targets.map(({ name }) => name)],
  });
}

/**
 * Each key is looked up by itself (`lookUp`): where statistics say that there is no fence, since the last one is gone, a join would
 * read all keys of the new one, for each merge.
 *
 * @throws EmendError `key_fenced` when a key of the rows has a fence around it
 */
export async function refuseFenced(client: ClientBase, target: Target, rows: LogRows): Promise<void> {
  const { key, name } = target;
  const fences = `select f.holder from emend.fence f where f.target = $1 and f.key_hash = ${keyHash(key, 'k')}`;
  const casts = key.map((column) => `a.${ident(column.name)}::${column.baseType} as ${ident(column.name)}`);
  const arrays = key.map((_, index) => `$${index + 2}::text[]`);
  const { rows: found } = await client.query<{ holder: string }>(
    `select f.holder
     from (select ${casts.join(', ')} from unnest(${arrays.join(', ')}) as a (${key.map((column) => ident(column.name)).join(', ')})) as k
     ${lookUp(fences, 'f')}
     limit 1`,
    [name, ...key.map((column) => rows.values[rows.columns.indexOf(column.name)] ?? [])],
  );
  if (!found[0]) return;
  throw new EmendError('key_fenced', `${name}: ${found[0].holder} is at work on a key of these rows`, {
    remedy: 'Nothing has to be done: the rows wait, and are merged when it is done.',
  });
}
