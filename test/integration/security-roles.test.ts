import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import { correct } from '../../src/log/append.ts';
import { createLogger } from '../../src/observe/logger.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import type { Pipeline, Role } from '../../src/pipeline/pipeline.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { sweepNow } from '../../src/pipeline/sweep-now.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { query } from '../support/query.ts';

/**
 * The whole path, each on a login of its own that has the grants which docs/operations.md lists, and no others. They are read from
 * there, so that they cannot differ.
 */
const documented = ((text) => {
  const section = text.slice(text.indexOf('\n## Rights'), text.indexOf('\n## Source server'));
  const [source, store, queue] = [...section.matchAll(/```sql\n(.*?)```/gs)].map(([, sql]) => sql!);
  return { source: source!, store: store!, queue: queue! };
})(readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8'));

const unique = randomBytes(4).toString('hex');
const logins = ['owner', 'app', 'reader', 'worker', 'analyst'] as const;
type Login = (typeof logins)[number];
const nameOf = (login: Login): string => `${login}_${unique}`;
/** Statements about the logins of the documentation, about those of this test. */
const forUs = (sql: string, install: string, database: string): string =>
  sql
    .replaceAll('analytics', database)
    .replaceAll('4f1c2a9e', install)
    .replaceAll(/\b(?<!emend_)(app|reader|worker|analyst)\b/g, (login) => nameOf(login as Login));

const { targets } = defineConfig({
  targets: {
    orders: facts('public.orders', { key: ['id'] }),
    prices: timeline('public.prices', { key: ['product'], period: ['f', 't'] }),
  },
});
const ddl = `
  create table public.orders (id integer primary key, amount numeric(10, 2));
  create table public.prices (product text not null, f date not null, t date not null, price numeric, primary key (product, f));
  alter table public.orders owner to ${nameOf('owner')};
  alter table public.prices owner to ${nameOf('owner')};
  create table public.other (id integer)`;

beforeAll(async () => {
  for (const login of logins)
    await query(
      inject('postgresUrl'),
      `create role ${nameOf(login)} login password 'secret' ${login === 'owner' ? 'createrole replication' : ''}`,
    );
});

describe.each(['redis', 'postgres'] as const)('with the documented rights, queue in %s', (queue) => {
  let urls: { source: string; store: string };
  let configs: Record<'owner' | 'reader' | 'worker', ResolvedConfig>;
  let refusal: unknown;
  const running: Pipeline[] = [];

  const as = (login: Login, side: 'source' | 'store'): string => {
    const url = new URL(urls[side]);
    url.username = nameOf(login);
    url.password = 'secret';
    return url.href;
  };
  const run = <R extends pg.QueryResultRow>(
    login: Login,
    side: 'source' | 'store',
    sql: string,
  ): Promise<R[]> => query<R>(as(login, side), sql);
  const refused = (login: Login, side: 'source' | 'store', sql: string): Promise<void> =>
    expect(run(login, side, sql), `${login}: ${sql}`).rejects.toMatchObject({ code: '42501' });
  const start = async (login: 'reader' | 'worker', role: Role): Promise<void> => {
    const log = createLogger({ level: process.env.EMEND_LOG_LEVEL ?? 'silent' });
    running.push(await startPipeline({ config: configs[login], roles: [role], log }));
  };

  beforeAll(async () => {
    const databases = await createDatabases('security roles');
    urls = { source: databases.sourceUrl, store: databases.storeUrl };
    const [source, store] = Object.values(urls).map((url) => new URL(url).pathname.slice(1)) as [
      string,
      string,
    ];
    await query(urls.source, `grant create on database ${source} to ${nameOf('owner')}`);
    await query(urls.store, `grant create on database ${store} to ${nameOf('owner')}`);
    // what everybody has unless it was taken away
    await query(urls.source, `revoke temporary on database ${source} from public`);
    await query(urls.store, `revoke temporary on database ${store} from public`);
    await query(urls.store, ddl);
    await query(urls.source, 'create table public.secrets (text text)');
    const configOf = (login: Login): ResolvedConfig =>
      resolveConfig(
        {
          source: { url: as(login, 'source') },
          store: { url: as(login, 'store') },
          queue: queue === 'redis' ? { redis: databases.redisUrl } : {},
          targets,
        },
        {},
      );
    configs = { owner: configOf('owner'), reader: configOf('reader'), worker: configOf('worker') };
    refusal = await migrate({ config: configs.owner, print: false }).catch((error: unknown) => error);
    await query(urls.store, `grant create on schema public to ${nameOf('owner')}`);
    const { install } = await migrate({ config: configs.owner, print: false });
    await query(urls.source, forUs(documented.source, install, source));
    await query(urls.store, forUs(documented.store, install, store));
    if (queue === 'postgres') await query(urls.store, forUs(documented.queue, install, store));
    await start('reader', 'reader');
    await start('worker', 'worker');
  });
  afterAll(() => Promise.all(running.map((pipeline) => pipeline.stop())));

  const wait = () => waitUntilMerged({ config: configs.worker, timeoutMs: 20_000 });
  const orders = () =>
    run<{ id: number; amount: string }>(
      'analyst',
      'store',
      'select id, amount from public.orders order by id',
    );

  it('migrate says what its role lacks in the schemas of the targets, before it changes anything', () => {
    expect(refusal).toMatchObject({
      code: 'permission_missing',
      problems: [
        { path: 'targets.orders', remedy: expect.stringContaining('grant create on schema "public"') },
        { path: 'targets.prices' },
      ],
    });
  });

  it('corrections are written, read, merged and asked about', async () => {
    await run('app', 'source', 'insert into corrections.orders (id, amount) values (1, 1), (2, 2)');
    await run(
      'app',
      'source',
      `insert into corrections.orders (id, _op, _reason) values (2, 'retract', 'no')`,
    );
    const app = new pg.Client({ connectionString: as('app', 'source') });
    await app.connect();
    await correct(app, targets.prices, { product: 'A', f: '2026-01-01', t: 'infinity', price: '5' }).finally(
      () => app.end(),
    );
    await wait();
    expect(await orders()).toEqual([{ id: 1, amount: '1.00' }]);
    const asked = `select price from emend.prices_at('2026-02-01') union all select price from emend.prices_at('2026-02-01', emend.settled())`;
    await eventually(async () =>
      expect(await run('analyst', 'store', asked)).toEqual([{ price: '5' }, { price: '5' }]),
    );
  });

  it('what no stream brings is swept, and a slot that was dropped is made again', async () => {
    const [slot] = await query<{ name: string }>(
      urls.source,
      `select slot_name as name from pg_replication_slots where database = current_database()`,
    );
    await eventually(async () => {
      await query(
        urls.source,
        `select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active`,
        [slot!.name],
      );
      await query(urls.source, `select pg_drop_replication_slot($1)`, [slot!.name]);
    });
    await run('app', 'source', 'insert into corrections.orders (id, amount) values (3, 3)');
    await wait();
    await eventually(async () => expect((await readStatus(configs.worker)).problems).toEqual([]));
    expect(await sweepNow({ config: configs.worker, all: true })).toMatchObject({ enqueued: 0, leftOut: [] });
    expect((await orders()).map(({ id }) => id)).toEqual([1, 3]);
  });

  it('a backfill is opened, loaded and decided on by the application, and carried out by the worker', async () => {
    const stateOf = async (): Promise<string | undefined> =>
      (await run<{ state: string }>('analyst', 'store', 'select state from emend.backfill'))[0]?.state;
    await run('app', 'source', `select corrections.open_backfill('b', '{orders,prices}', 'why', 'v1')`);
    await run('app', 'source', `insert into corrections.orders (id, amount, _backfill) values (4, 4, 'b')`);
    await run(
      'app',
      'source',
      `insert into corrections.prices (product, f, t, price, _backfill) values ('B', '2026-01-01', '2026-02-01', 1, 'b')`,
    );
    await run('app', 'source', `select corrections.seal_backfill('b')`);
    await run('app', 'source', `select corrections.promote_backfill('b', 'looks right')`);
    await eventually(async () => expect(await stateOf()).toBe('promoted'));
    expect((await orders()).map(({ id }) => id)).toContain(4);
    await run('app', 'source', `select corrections.revert_backfill('b', 'wrong')`);
    await eventually(async () => expect(await stateOf()).toBe('reverted'));
    expect((await orders()).map(({ id }) => id)).not.toContain(4);
  });

  it('verify finds nothing, as the worker', async () => {
    expect((await verify(configs.worker)).map(({ found }) => found)).toEqual([{}, {}]);
  });

  it.each([
    `insert into corrections.orders (id, amount, _id) values (1, 1, 1)`,
    `insert into corrections.orders (id, amount, _xid) values (1, 1, pg_current_xact_id())`,
    `insert into corrections.orders (id, amount, _nonce) values (1, 1, 1)`,
    `update corrections.orders set amount = 2`,
    `delete from corrections.orders`,
    `truncate corrections.orders`,
    `select amount from corrections.orders`,
    `select setval('corrections._id', 1)`,
    `insert into corrections._request (backfill, request) values ('b', 'promote')`,
    `select text from public.secrets`,
    `create table corrections.mine (id integer)`,
    `alter table corrections.orders disable trigger all`,
    `create publication mine for table corrections.orders`,
  ])('the application may not: %s', async (sql) => {
    await refused('app', 'source', sql);
  });

  it('the application may not have SQL of its own run by the worker', async () => {
    for (const sql of [
      `select corrections.open_backfill('c', '{orders}', 'why', 'v1', checks => '{"sql": {"x": "select 1"}}')`,
      `select corrections.open_backfill('c', '{orders}', 'why', 'v1', boundary => '{"orders": {"where": "true"}}')`,
    ])
      await expect(run('app', 'source', sql)).rejects.toMatchObject({ code: 'EM002' });
  });

  it.each([
    `insert into corrections.orders (id, amount) values (1, 1)`,
    `delete from corrections.orders`,
    `truncate corrections.orders`,
    `select nextval('corrections._id')`,
    `select corrections.open_backfill('c', '{orders}', 'why', 'v1')`,
    `insert into corrections._request (backfill, request) values ('b', 'promote')`,
    `select text from public.secrets`,
    `create table corrections.mine (id integer)`,
  ])('neither reader nor worker may, in the source: %s', async (sql) => {
    await refused('reader', 'source', sql);
    await refused('worker', 'source', sql);
  });

  it.each([
    `select amount from public.orders`,
    `insert into public.orders values (9, 9)`,
    `select count(*) from emend.ledger`,
    `update emend.install set id = 'x'`,
    `delete from emend.sweep_round`,
    `create table emend.mine (id integer)`,
  ])('the reader may not, in the store: %s', async (sql) => {
    await refused('reader', 'store', sql);
  });

  it.each([
    `truncate public.orders`,
    `alter table public.orders add column mine text`,
    `drop table emend.target cascade`,
    `select id from public.other`,
    `create table public.mine (id integer)`,
    `create schema mine`,
  ])('the worker may not, in the store: %s', async (sql) => {
    await refused('worker', 'store', sql);
  });

  it.each([
    `insert into public.orders values (9, 9)`,
    `update public.orders set amount = 0`,
    `delete from public.orders`,
    `truncate public.orders`,
    `delete from emend.orders_history`,
    `insert into emend.sweep_round default values`,
    `update emend.clock set settled = now()`,
    `delete from emend.backfill`,
    `select id from public.other`,
    `create table emend.mine (id integer)`,
  ])('an analyst may not: %s', async (sql) => {
    await refused('analyst', 'store', sql);
  });
});
