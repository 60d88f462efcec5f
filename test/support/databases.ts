import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, inject } from 'vitest';

/**
 * Two fresh, empty databases in the run's PostgreSQL, dropped after the test file:
 *
 *     const databases = await createDatabases('merge')
 *     const pool = createPool({ url: databases.storeUrl, … })
 */
export interface Databases {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly redisUrl: string;
  /** Drops them before the end of the file (happens by itself otherwise). */
  readonly drop: () => Promise<void>;
}

export async function createDatabases(
  name: string,
  options: { sameDatabase?: boolean } = {},
): Promise<Databases> {
  const unique = `${name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .slice(0, 40)}_${randomBytes(4).toString('hex')}`;
  const names = options.sameDatabase === true ? [unique] : [`${unique}_source`, `${unique}_store`];
  await asAdmin(async (client) => {
    for (const each of names) await client.query(`create database ${pg.escapeIdentifier(each)}`);
  });
  let dropped: Promise<void> | undefined;
  const drop = (): Promise<void> => (dropped ??= dropDatabases(names));
  afterAll(drop);
  const [source = unique, store = unique] = names;
  return { sourceUrl: databaseUrl(source), storeUrl: databaseUrl(store), redisUrl: inject('redisUrl'), drop };
}

function databaseUrl(database: string): string {
  const url = new URL(inject('postgresUrl'));
  url.pathname = `/${database}`;
  return url.href;
}

async function dropDatabases(names: readonly string[]): Promise<void> {
  await asAdmin(async (client) => {
    await dropSlots(client, names); // a database with a logical slot cannot be dropped
    for (const name of names)
      await client.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
  });
}

async function dropSlots(client: pg.Client, databases: readonly string[]): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    const { rows } = await client.query<{ slot_name: string; active_pid: number | null }>(
      'select slot_name, active_pid from pg_replication_slots where database = any($1)',
      [databases],
    );
    if (rows.length === 0) return;
    if (tries === 100)
      throw new Error(`slots are still in use: ${rows.map((row) => row.slot_name).join(', ')}`);
    for (const { slot_name: slot, active_pid: pid } of rows) {
      if (pid === null)
        await client.query('select pg_drop_replication_slot($1)', [slot]).catch(() => undefined);
      else await client.query('select pg_terminate_backend($1)', [pid]);
    }
    await sleep(50);
  }
}

async function asAdmin(fn: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: inject('postgresUrl'), application_name: 'emend tests' });
  await client.connect();
  try {
    await fn(client);
  } finally {
    await client.end();
  }
}
