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

/**
 * Sends statements as one READ COMMITTED transaction in one go, so that nothing waits for the network between two of them, least of
 * all under locks. Once one fails, Postgres refuses those behind it, and its answer to the commit is a rollback.
 *
 * @param pool its clients are pipelined; what is sent must know nothing of the answers
 * @throws what the first statement that failed was answered
 */
export async function inOneTrip(
  pool: Pool,
  send: (client: PoolClient) => readonly Promise<unknown>[],
): Promise<void> {
  const client = await pool.connect();
  const begun = client.query('begin isolation level read committed');
  const answers = await Promise.allSettled([begun, ...send(client), client.query('commit')]);
  // a commit that fails ends the transaction too, but a connection that broke fails it as well
  client.release(answers.at(-1)!.status === 'rejected');
  const failed = answers.find((answer) => answer.status === 'rejected');
  if (failed) throw failed.reason;
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
