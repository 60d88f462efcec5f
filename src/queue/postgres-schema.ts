import {
  LATEST_SCHEMA_VERSION,
  SchemaMigrationRequiredError,
  assertSchemaCompatibility,
  runMigrations,
} from 'bullmq';
import type pg from 'pg';
import { withClient, withTransaction } from '../db/transaction.ts';

/** Not BullMQ's default schema: another application may use that one for its own queues. */
export const schema = 'emend_queue';

/** Only what is missing is made, so that the ordinary roles need no right to create. */
export async function prepareSchema(pool: pg.Pool, queues: readonly string[]): Promise<void> {
  await withClient(pool, async (client) => {
    if ((await installedVersion(client)) < LATEST_SCHEMA_VERSION) await runMigrations(client, schema);
  });
  const { rows } = await pool.query<{ missing: boolean }>(
    `select to_regclass('emend_epoch') is null as missing`,
  );
  if (rows[0]?.missing) await withTransaction(pool, createEpochTable);
  // BullMQ makes a sequence for each queue when it is added to for the first time, though jobs bring ids of their own
  await pool.query(
    `select next_job_id(q.name) from unnest($1::text[]) as q (name) where to_regclass(job_id_seq_name(q.name)) is null`,
    [queues],
  );
}

async function installedVersion(client: pg.ClientBase): Promise<number> {
  try {
    return await assertSchemaCompatibility(client, schema);
  } catch (error) {
    if (error instanceof SchemaMigrationRequiredError) return 0;
    throw error;
  }
}

/** Several processes start at once; `if not exists` alone lets two of them collide in the catalogue. */
async function createEpochTable(client: pg.ClientBase): Promise<void> {
  await client.query(`select pg_advisory_xact_lock(hashtextextended('emend_queue.emend_epoch', 0))`);
  await client.query(`
    create table if not exists emend_epoch (
      prefix text primary key,
      epoch text not null
    )`);
}
