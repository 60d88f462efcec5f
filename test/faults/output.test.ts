import { mkdtempSync, rmSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { query } from '../support/query.ts';
import { createBuiltCli, ensureBuilt } from './built-cli.ts';
import type { BuiltCli } from './built-cli.ts';

/** Every text value of a row and every password begins with it; numbers begin with 7773331. */
const mark = 'zqzq';
const tellTale = new RegExp(`.{0,80}(?:${mark}|7773331).{0,40}`, 'gi');

const config = `
import { defineConfig, facts, timeline } from 'emend';
export default defineConfig({
  targets: {
    orders: facts('public.orders', { key: ['id'], allow: ['orders_email'] }),
    prices: timeline('public.prices', { key: ['product'], period: ['f', 't'] }),
  },
});`;

const ddl = `
  create table public.orders (id text primary key, amount numeric, email text, customer text references public.orders, doc jsonb);
  create unique index orders_email on public.orders (email);
  create table public.prices (product text not null, f date not null, t date not null, note integer, price numeric(8, 1));
  create function public.refuse() returns trigger language plpgsql as
    $$ begin if new.amount = 7773331666 then raise exception 'not the amount % of %', new.amount, new.id; end if; return new; end $$;
  create trigger refuse before insert or update on public.orders for each row execute function public.refuse();`;

/** What the store refuses, after the log was made: each with its SQLSTATE. */
const poison = `
  insert into corrections.orders (id, amount, email, customer, doc)
  select '${mark}-key-' || n, 7773331000 + n, '${mark}@example.org' || n, null, jsonb_build_object('note', '${mark}-doc')
  from generate_series(1, 200) n;
  insert into corrections.orders (id, amount) values ('${mark}-check', 7773331555);
  insert into corrections.orders (id, amount) values ('${mark}-trigger', 7773331666);
  insert into corrections.orders (id, email) values ('${mark}-unique', '${mark}@example.org7');
  insert into corrections.orders (id, customer) values ('${mark}-foreign', '${mark}-nobody');
  insert into corrections.prices (product, f, t, note, price) values ('${mark}-p', '2026-01-01', '2026-02-01', '${mark}-no-number', 7773331);
  insert into corrections.prices (product, f, t, note, price) values ('${mark}-p', '2026-01-01', '2026-02-01', '12', 7773331999);`;

/** With everything in it that ends a password for somebody who reads a URL carelessly. */
const passwordOf = (name: string): string => `${mark}-${name}:@/?#[]% '"\\`;

const role = `app_${process.pid}_${Date.now()}`;
let urls: { SOURCE_URL: string; STORE_URL: string; REDIS_URL: string };
let redis: LocalRedis;
let dir: string;
let cli: BuiltCli;
/** All that any process wrote, with the command in front. */
const outputs: string[] = [];

beforeAll(async () => {
  await ensureBuilt();
  dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-`));
  redis = await startRedis({ dir, temporary: true });
  await inRedis('', (client) => client.config('SET', 'requirepass', passwordOf('redis')));
  const databases = await createDatabases('output');
  await setPassword('create', passwordOf('postgres'));
  urls = {
    SOURCE_URL: withLogin(databases.sourceUrl, role, passwordOf('postgres')),
    STORE_URL: withLogin(databases.storeUrl, role, passwordOf('postgres')),
    REDIS_URL: withLogin(redis.url, '', passwordOf('redis')),
  };
  cli = createBuiltCli(config, urls);
}, 120_000);

afterAll(async () => {
  await redis?.stop();
  cli?.remove();
  rmSync(dir, { recursive: true, force: true });
});

function withLogin(url: string, user: string, password: string): string {
  const parsed = new URL(url);
  parsed.username = user;
  parsed.password = encodeURIComponent(password);
  return parsed.href;
}

async function setPassword(verb: 'create' | 'alter', password: string): Promise<void> {
  const literal = `E'${password.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  await query(inject('postgresUrl'), `${verb} role ${role} login superuser replication password ${literal}`);
}

async function inRedis<T>(password: string, body: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(redis.url, password === '' ? {} : { password });
  return body(client).finally(() => client.disconnect());
}

/** What goes on is asked to end after some seconds. An answer about rows may show them; what is said beside it may not. */
async function run(
  args: readonly string[],
  env: Record<string, string> = {},
  endAfterMs = 40_000,
): Promise<number> {
  const { code, stdout, stderr } = await cli.run(args, env, { endAfterMs });
  outputs.push(`$ emend ${args.join(' ')}\n${args[0] === 'dead' ? '' : stdout}${stderr}`);
  return code;
}

function start(): { readonly said: () => string; readonly end: () => Promise<void> } {
  const child = spawn(process.execPath, [join(process.cwd(), 'dist/cli/cli.js'), 'start'], {
    cwd: cli.dir,
    env: { ...cli.env, EMEND_LOG_LEVEL: 'trace' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '$ emend start\n';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (said += text));
  const exit = once(child, 'exit');
  return {
    said: () => said,
    async end() {
      child.kill('SIGTERM');
      await exit;
      outputs.push(said);
    },
  };
}

/** Everything that anybody was shown, without rows and passwords; and it is not silence that makes it so. */
function expectClean(...shown: RegExp[]): void {
  const all = outputs.join('\n');
  expect(all.match(tellTale) ?? []).toEqual([]);
  for (const pattern of shown) expect(all).toMatch(pattern);
}

it('no line of a run with rows of every bad kind holds a value, nor a password that is changed under it', async () => {
  await query(urls.STORE_URL, ddl);
  expect(await run(['migrate'])).toBe(0);
  await query(urls.STORE_URL, `alter table public.orders add constraint small check (amount <> 7773331555)`);
  await query(
    urls.SOURCE_URL,
    `alter table corrections.prices alter column note type text, alter column price type numeric`,
  );
  const pipeline = start();
  await query(urls.SOURCE_URL, poison);
  expect(await run(['wait', '--timeout', '30'])).toBe(0);
  const { code, stdout } = await cli.run(['dead', 'list', '--json']);
  const letters = JSON.parse(stdout) as { _id: string; sqlstate: string }[];
  expect([code, letters.map(({ sqlstate }) => sqlstate).sort()]).toEqual([
    0,
    ['22003', '22P02', '23503', '23505', '23514', 'P0001'],
  ]);
  const ids = letters.map(({ _id }) => _id);
  await run(['dead', 'retry', '--all']);
  await run(['dead', 'discard', ids[0]!, '--reason', 'given up']);
  await run(['undo', 'orders', '1', '--reason', 'not so']);
  for (const args of [['status'], ['status', '--json'], ['sweep', '--all'], ['verify'], ['migrate']])
    await run(args);

  // what nobody expects, and what is refused from now on
  await query(urls.STORE_URL, 'alter table public.orders rename column amount to sum');
  await query(
    urls.SOURCE_URL,
    `insert into corrections.orders (id, amount) values ('${mark}-late', 7773331)`,
  );
  await eventually(() => expect(pipeline.said()).toContain('was not merged and will be tried again'));
  await run(['status']);
  await inRedis(passwordOf('redis'), async (client) => {
    await client.flushall();
    await client.config('SET', 'requirepass', `${mark}-other`);
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal');
  });
  await eventually(() => expect(pipeline.said()).toMatch(/WRONGPASS|NOAUTH/));
  await setPassword('alter', `${mark}-other`);
  await query(
    inject('postgresUrl'),
    `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`,
  );
  await eventually(() => expect(pipeline.said()).toContain('28P01'));
  await pipeline.end();
  await setPassword('alter', passwordOf('postgres'));
  await inRedis(`${mark}-other`, (client) => client.config('SET', 'requirepass', passwordOf('redis')));
  expectClean(/was set aside/, /23514/, /WRONGPASS|NOAUTH/, /28P01/);
}, 120_000);

it('no refusal of a URL holds its password, whatever is wrong with it', async () => {
  const login = (url: string, user = role): string => withLogin(url, user, passwordOf('wrong'));
  // a worker goes on without its source
  const wrong = [
    { SOURCE_URL: login(urls.SOURCE_URL) },
    { STORE_URL: login(urls.STORE_URL) },
    { REDIS_URL: login(urls.REDIS_URL, '') },
    { REPLICATION_URL: login(urls.SOURCE_URL) },
  ];
  const commands = [['migrate'], ['reader'], ['worker'], ['status'], ['wait', '--timeout', '2', '--json']];
  const unreadable = [
    `postgres://user:${mark}-a b@:port/x`,
    `postgres://user:${mark}-a@b@127.0.0.1:1/x`,
    `user:${mark}@host`,
    `host=localhost password=${mark}`,
    `redis://:${mark}:x@127.0.0.1:1`,
  ];
  const names = ['SOURCE_URL', 'STORE_URL', 'REDIS_URL'];
  const todo = [
    ...commands.flatMap((args) => wrong.map((env) => ({ args, env }))),
    ...unreadable.map((url, place) => ({ args: ['status'], env: { [names[place % names.length]!]: url } })),
  ];
  // as many at a time as a laptop has cores
  const runNext = async (): Promise<void> => {
    for (let next = todo.pop(); next; next = todo.pop())
      await run(next.args, { EMEND_LOG_LEVEL: 'trace', ...next.env }, 5_000);
  };
  await Promise.all(Array.from({ length: 4 }, runNext));
  expectClean(/refused the password/, /WRONGPASS/);
}, 240_000);
