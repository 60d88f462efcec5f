import type { Pool, PoolClient } from 'pg';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';

/** Locks of backfills, as two integers: a class of their own, and the name's hash. */
const lockClassOfBackfills = 0x656e0000;

/**
 * One worker at a time moves a backfill. The lock is a session's: it goes with the process that held it, or with its connection,
 * and so spares work only. What may happen once stands in the transactions: `holdFence`, `moveTo`.
 */
export async function withBackfillLock(store: Pool, name: string, body: () => Promise<void>): Promise<void> {
  await withClient(store, async (client) => {
    if (!(await tryLock(client, name))) {
      throw new EmendError('backfill_busy', `another worker is moving backfill ${name}`, {
        remedy: 'Nothing has to be done: it is tried again.',
      });
    }
    try {
      await body();
    } finally {
      await client.query(`select pg_advisory_unlock($1::int, hashtext($2))`, [lockClassOfBackfills, name]);
    }
  });
}

async function tryLock(client: PoolClient, name: string): Promise<boolean> {
  const { rows } = await client.query<{ taken: string }>(
    `select pg_try_advisory_lock($1::int, hashtext($2))::text as taken`,
    [lockClassOfBackfills, name],
  );
  return rows[0]?.taken === 'true';
}
