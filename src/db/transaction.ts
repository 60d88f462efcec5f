import type { Pool, PoolClient } from 'pg';

/**
 * Runs `body` in one READ COMMITTED transaction on a client of its own.
 *
 * A client whose transaction could not be ended cleanly is destroyed, never handed on: the next user of the pool
 * would find itself inside somebody else's aborted transaction (25P02).
 */
export async function withTransaction<T>(pool: Pool, body: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('begin isolation level read committed');
    const result = await body(client);
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback').catch((rollbackError: Error) => {
      broken = rollbackError;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

/** Runs `body` with a client outside a transaction; a client that saw a connection error is destroyed. */
export async function withClient<T>(pool: Pool, body: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    const result = await body(client);
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw error;
  }
}
