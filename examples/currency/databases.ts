import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { Services } from 'emend/dev';

/**
 * Two fresh databases for one run. Where SOURCE_URL or STORE_URL names a server of the user's, they are made beside the
 * database that it names, and dropped at the end: the demo touches nothing that was there.
 */
export interface DemoDatabases {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  drop(): Promise<void>;
}

export async function createDemoDatabases(services: Services): Promise<DemoDatabases> {
  const run = randomBytes(4).toString('hex');
  const source = await createBeside(services.sourceUrl, `emend_demo_${run}_source`);
  const store = await createBeside(services.storeUrl, `emend_demo_${run}_store`);
  return {
    sourceUrl: source.url,
    storeUrl: store.url,
    drop: async () => {
      await source.drop();
      await store.drop();
    },
  };
}

async function createBeside(url: string, name: string): Promise<{ url: string; drop(): Promise<void> }> {
  const created = new URL(url);
  created.pathname = `/${name}`;
  await withAdmin(url, (client) => client.query(`create database ${name}`));
  return {
    url: created.href,
    drop: () =>
      withAdmin(url, async (client) => {
        // a database with a slot cannot be dropped, and a slot is active until its reader is gone
        await client.query(
          `select pg_terminate_backend(active_pid) from pg_replication_slots where database = $1 and active`,
          [name],
        );
        await client.query(
          `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1 and not active`,
          [name],
        );
        await client.query(`drop database if exists ${name} with (force)`);
      }),
  };
}

async function withAdmin(url: string, body: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await body(client);
  } finally {
    await client.end();
  }
}
