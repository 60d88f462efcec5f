import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createDatabases } from '../support/databases.ts';
import type { Databases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';
import type { Migration } from '../../src/pipeline/migrate.ts';
import type { AtAnswer } from '../../src/pipeline/at.ts';
import type { Status } from '../../src/pipeline/status-report.ts';
import type { Waited } from '../../src/pipeline/wait.ts';

const config = `
import { defineConfig, facts, timeline } from 'emend'
export default defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product_id'], period: ['valid_from', 'valid_to'] }),
    orders: facts('orders', { key: ['order_id', 'source_system'] }),
  },
})
`;

const tables = `
  create table public.prices (
    product_id text not null, price numeric(40, 10), valid_from date not null, valid_to date not null
  );
  create table public.orders (order_id bigint not null, source_system text not null, amount numeric);
`;

/** Everything that has a name in a database, so that a change of any kind is seen. */
async function objectsOf(url: string): Promise<string[]> {
  const rows = await query<{ object: string }>(
    url,
    `select n.nspname || '.' || c.relname as object from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
     union all select 'schema ' || nspname from pg_namespace where nspname !~ '^pg_'
     union all select 'publication ' || pubname from pg_publication
     union all select 'slot ' || slot_name from pg_replication_slots where database = current_database()
     union all select 'column ' || attrelid::regclass || '.' || attname from pg_attribute
       where attrelid::regclass::text in ('prices', 'orders') and attnum > 0
     order by 1`,
  );
  return rows.map((row) => row.object);
}

describe.each([
  { name: 'two databases and Redis', sameDatabase: false, redis: true },
  { name: 'one database and no Redis', sameDatabase: true, redis: false },
])('with $name', ({ sameDatabase, redis }) => {
  let databases: Databases;
  let cli: Cli;

  beforeAll(async () => {
    databases = await createDatabases('cli', { sameDatabase });
    await query(databases.storeUrl, tables);
    cli = createCli(config, {
      SOURCE_URL: databases.sourceUrl,
      STORE_URL: databases.storeUrl,
      ...(redis ? { REDIS_URL: databases.redisUrl } : {}),
    });
  });

  it('migrate --print shows every statement and changes nothing', async () => {
    const before = [await objectsOf(databases.sourceUrl), await objectsOf(databases.storeUrl)];
    const { code, stdout, stderr } = await cli.run(['migrate', '--print']);
    expect([code, stderr]).toEqual([0, '']);
    for (const part of [
      'create table "corrections"."prices"',
      'create publication',
      'pg_create_logical_replication_slot',
    ])
      expect(stdout).toContain(part);
    expect([await objectsOf(databases.sourceUrl), await objectsOf(databases.storeUrl)]).toEqual(before);
  });

  it('the commands that need a migrated store say so before it is', async () => {
    for (const args of [['status'], ['wait'], ['at', 'prices'], ['start']]) {
      const { code, stderr } = await cli.run(args);
      expect([code, args]).toEqual([1, args]);
      expect(stderr).toContain('Run emend migrate');
    }
  });

  it('four migrates at once all succeed, and another one has nothing to do', async () => {
    const runs = await Promise.all(Array.from({ length: 4 }, () => cli.json<Migration>(['migrate'])));
    expect(new Set(runs.map((run) => run.install)).size).toBe(1);
    expect(runs.filter((run) => run.statements.length > 0)).toHaveLength(1);
    expect((await cli.json<Migration>(['migrate'])).statements).toEqual([]);
    expect((await objectsOf(databases.storeUrl)).includes('schema emend_queue')).toBe(!redis);
    expect((await cli.run(['migrate', '--print'])).stdout).toBe('-- nothing to do\n');
  });

  it('wait gives up after its timeout when nobody reads, with exit code 1 and what to do', async () => {
    expect(await cli.json<Waited>(['wait', '--timeout', '1'])).toMatchObject({ rows: 0 });
    await query(
      databases.sourceUrl,
      `insert into corrections.prices (product_id, price, valid_from, valid_to) values ('A', 5, '2026-01-01', 'infinity')`,
    );
    const { code, stderr } = await cli.run(['wait', '--timeout', '0.2', '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stderr)).toMatchObject({
      error: { code: 'timed_out', message: /1 row is not merged yet/ },
    });
    const status = await cli.run(['status', '--json']);
    expect([status.code, status.stderr]).toEqual([1, '']);
    expect((JSON.parse(status.stdout) as Status).problems.map(({ path }) => path)).toContain('slot');
    expect(await cli.run(['status'])).toMatchObject({ code: 1, stdout: /! slot: no reader is connected/ });
  });

  it('start merges what was and is written; wait and at read it; it stops within 10 s with exit code 0', async () => {
    const started = cli.start(['start']);
    await started.said('reading the source');
    await cli.json(['wait', '--timeout', '30']);
    const xid = await query<{ xid: string }>(
      databases.sourceUrl,
      `with written as (
         insert into corrections.prices (product_id, price, valid_from, valid_to)
         values ('A', 123456789012345678901234567890.0123456789, '2026-09-10', '2026-09-12') returning _xid
       )
       select _xid::text as xid from written`,
    );
    const waited = await cli.json<Waited>(['wait', '--timeout', '30', '--xid', xid[0]!.xid]);
    expect(waited).toMatchObject({ rows: 1, setAside: 0 });

    const answer = await cli.json<AtAnswer>(['at', 'prices', '--key', 'A', '--valid-at', '2026-09-10']);
    expect(answer.rows).toEqual([
      expect.objectContaining({
        product_id: 'A',
        price: '123456789012345678901234567890.0123456789',
        valid_from: '2026-09-10',
        valid_to: '2026-09-12',
        _known_to: 'infinity',
      }),
    ]);
    const { stdout } = await cli.run(['at', 'prices', '--key', 'product_id=A', '--valid-at', '2026-09-12']);
    expect(stdout).toMatch(/product_id +valid_from +valid_to +price/);
    expect(stdout).toContain('5.0000000000');

    const before = await query<{ t: string }>(databases.storeUrl, 'select emend.settled()::text as t');
    const earlier = await cli.json<AtAnswer>([
      'at',
      'prices',
      '--valid-at',
      '2026-09-10',
      '--known-at',
      before[0]!.t,
    ]);
    expect(earlier.rows).toHaveLength(1);

    await query(
      databases.sourceUrl,
      `insert into corrections.orders (order_id, source_system, amount) select n, 'shop', n from generate_series(1, 5000) n`,
    );
    await cli.json(['wait', '--timeout', '30']);
    expect((await cli.json<AtAnswer>(['at', 'orders', '--limit', '3'])).more).toBe(true);
    const one = await cli.json<AtAnswer>([
      'at',
      'orders',
      '--key',
      'order_id=4711',
      '--key',
      'source_system=shop',
    ]);
    expect(one.rows.map((row) => row['amount'])).toEqual(['4711']);

    await eventually(async () => {
      const status = await cli.json<Status>(['status']);
      expect(status).toMatchObject({
        readers: [{ slot: { state: 'reading' } }],
        queue: { kind: redis ? 'redis' : 'postgres', waiting: 0, active: 0 },
        targets: [
          { name: 'prices', merged: 2, setAside: 0 },
          { name: 'orders', merged: 5000 },
        ],
        problems: [],
      });
    });
    expect(await cli.run(['status'])).toMatchObject({ code: 0, stdout: /All is well\./ });

    const askedAt = performance.now();
    started.process.kill('SIGTERM');
    expect(await started.ended).toMatchObject({ code: 0, stdout: '' });
    expect(performance.now() - askedAt).toBeLessThan(10_000);
  });

  it('reader and worker in processes of their own do the same, and end on SIGINT', async () => {
    const processes = [cli.start(['reader']), cli.start(['worker']), cli.start(['worker'])];
    await Promise.all(processes.map((each) => each.said('emend is running')));
    await query(
      databases.sourceUrl,
      `insert into corrections.orders (order_id, source_system, amount) values (4711, 'shop', 1)`,
    );
    await cli.json(['wait', '--timeout', '30']);
    const answer = await cli.json<AtAnswer>(['at', 'orders', '--key', 'order_id=4711']);
    expect(answer.rows.map((row) => row['amount'])).toEqual(['1']);
    for (const each of processes) each.process.kill('SIGINT');
    expect((await Promise.all(processes.map((each) => each.ended))).map(({ code }) => code)).toEqual([
      0, 0, 0,
    ]);
  });

  it('wait does not wait for a transaction that is still open, and is told of one that was rolled back', async () => {
    const client = new pg.Client({ connectionString: databases.sourceUrl });
    onTestFinished(() => client.end());
    await client.connect();
    await client.query('begin');
    const { rows } = await client.query<{ xid: string }>(
      `insert into corrections.orders (order_id, source_system) values (1, 'open') returning _xid::text as xid`,
    );
    expect(await cli.json<Waited>(['wait', '--timeout', '5'])).toMatchObject({ rows: 0 });
    const open = await cli.run(['wait', '--timeout', '0.2', '--xid', rows[0]!.xid]);
    expect([open.code, open.stderr]).toEqual([1, expect.stringContaining('has not ended yet')]);
    await client.query('rollback');
    const gone = await cli.run(['wait', '--xid', rows[0]!.xid]);
    expect([gone.code, gone.stderr]).toEqual([2, expect.stringContaining('was rolled back')]);
  });

  it('a column that the target gains is added by migrate; what cannot be added is refused and nothing changes', async () => {
    await query(databases.storeUrl, 'alter table public.orders add column currency text');
    expect((await cli.json<Migration>(['migrate'])).statements.length).toBeGreaterThan(0);
    await query(
      databases.sourceUrl,
      `insert into corrections.orders (order_id, source_system, currency) values (1, 'new', 'EUR')`,
    );
    await query(databases.storeUrl, 'alter table public.orders add column note text');
    writeFileSync(
      join(cli.dir, 'other-key.ts'),
      config.replace(`['order_id', 'source_system']`, `['order_id']`),
    );
    const before = [await objectsOf(databases.sourceUrl), await objectsOf(databases.storeUrl)];
    const { code, stderr } = await cli.run(['migrate', '--config', 'other-key.ts']);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/targets\.orders: key .*changed/)]);
    expect([await objectsOf(databases.sourceUrl), await objectsOf(databases.storeUrl)]).toEqual(before);
  });
});
