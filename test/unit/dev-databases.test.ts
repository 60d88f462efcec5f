import pg from 'pg';
import { expect, test } from 'vitest';
import { createDatabases } from '../support/databases.ts';

async function ask(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

test('a test file gets two databases of its own, or one for both', async () => {
  const two = await createDatabases('Two of them');
  const [source] = await ask(two.sourceUrl, 'select current_database() as name');
  expect(source).toEqual({ name: expect.stringMatching(/^two_of_them_[0-9a-f]{8}_source$/) });
  const [store] = await ask(two.storeUrl, 'select current_database() as name');
  expect(store).toEqual({ name: expect.stringMatching(/_store$/) });
  const one = await createDatabases('one', { sameDatabase: true });
  expect(one.sourceUrl).toBe(one.storeUrl);
});

test('databases with a slot are dropped too', async () => {
  const databases = await createDatabases('slot');
  await ask(databases.sourceUrl, `select pg_create_logical_replication_slot('left_behind', 'pgoutput')`);
  await databases.drop();
  await expect(ask(databases.sourceUrl, 'select 1')).rejects.toThrow(/does not exist/);
});
