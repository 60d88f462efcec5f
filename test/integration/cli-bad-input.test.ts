import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startPostgres } from '../../src/dev/postgres.ts';
import { startRedis } from '../../src/dev/redis.ts';
import { createDatabases } from '../support/databases.ts';
import type { Databases } from '../support/databases.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';

const tables = `
  create table public.prices (product_id text not null, price numeric, valid_from date not null, valid_to date not null);
  create table public.nullable (id text, valid_from date not null, valid_to date not null);
  create table public.unhashable (id tsvector not null, at point, valid_from date not null, valid_to date not null);
  create table public.reserved (id text not null, _note text, valid_from date not null, valid_to date not null);
  create table public.unique_email (id text not null primary key, email text unique);
  create table public.period_check (
    id text not null, valid_from date not null, valid_to date not null,
    constraint at_most_a_year check (valid_to - valid_from <= 366)
  );
  create table public.keyed (id text, valid_from date, valid_to date not null check (valid_to > valid_from), primary key (id, valid_from));
  create table public.numbered (id text not null, first integer not null, last integer not null);
  create view public.a_view as select 1 as id;
`;

const prices = `prices: timeline('prices', { key: ['product_id'], period: ['valid_from', 'valid_to'] })`;

function configOf(targets: string): string {
  return `import { defineConfig, facts, timeline } from 'emend'\nexport default defineConfig({ targets: { ${targets} } })\n`;
}

let databases: Databases;
let urls: Record<string, string>;
let cli: Cli;

beforeAll(async () => {
  databases = await createDatabases('bad');
  await query(databases.storeUrl, tables);
  urls = { SOURCE_URL: databases.sourceUrl, STORE_URL: databases.storeUrl, REDIS_URL: databases.redisUrl };
  cli = createCli(configOf(prices), urls);
});

/** Nothing of emend in either database, by whatever name. */
async function expectUntouched(): Promise<void> {
  const count = `select count(*)::int as n from pg_namespace where nspname in ('emend', 'corrections', 'emend_queue')`;
  for (const url of [databases.sourceUrl, databases.storeUrl]) {
    expect(await query(url, count)).toEqual([{ n: 0 }]);
  }
}

function changed(url: string, change: (url: URL) => void): string {
  const parsed = new URL(url);
  change(parsed);
  return parsed.href;
}

/** Runs migrate and expects one clear refusal, with nothing made. */
async function expectRefused(env: Record<string, string>, patterns: RegExp[], use: Cli = cli): Promise<void> {
  await expectFailure(2, env, patterns, use);
}

/** The same where a server is away: nothing of what was given has to be wrong. */
async function expectAway(env: Record<string, string>, patterns: RegExp[]): Promise<void> {
  await expectFailure(1, env, patterns, cli);
}

async function expectFailure(
  exitCode: 1 | 2,
  env: Record<string, string>,
  patterns: RegExp[],
  use: Cli,
): Promise<void> {
  const { code, stdout, stderr } = await use.run(['migrate'], env);
  expect(stderr).not.toMatch(/\bat .*\.ts:|unexpected/);
  for (const pattern of patterns) expect(stderr).toMatch(pattern);
  expect([code, stdout]).toEqual([exitCode, '']);
  for (const url of Object.values({ ...urls, ...env }).filter((text) => URL.canParse(text))) {
    const { password } = new URL(url);
    if (password !== '') expect(stderr).not.toContain(password);
  }
  await expectUntouched();
}

describe('a server that is away is named by its setting, and the exit code is 1 whichever server it is:', () => {
  it.each(['SOURCE_URL', 'STORE_URL', 'REPLICATION_URL'])('%s with a wrong port', async (env) => {
    const url = changed(urls[env] ?? databases.sourceUrl, (each) => (each.port = '1'));
    await expectAway({ [env]: url }, [/127\.0\.0\.1:1/, /nothing listens/, new RegExp(env)]);
  });

  it('an unknown host', async () => {
    await expectAway({ STORE_URL: 'postgres://a:hunter2@nowhere.invalid/x' }, [
      /store\.url/,
      /nowhere\.invalid/,
    ]);
  });

  it('Redis that is not there', async () => {
    await expectAway({ REDIS_URL: 'redis://127.0.0.1:1' }, [/queue\.redis/, /127\.0\.0\.1:1/]);
  });

  it('a server that has no connection left', async () => {
    await query(
      databases.storeUrl,
      `create role emend_full_${process.pid} login password 'hunter2' connection limit 0`,
    );
    const url = changed(databases.storeUrl, (each) => {
      each.username = `emend_full_${process.pid}`;
      each.password = 'hunter2';
    });
    try {
      await expectAway({ STORE_URL: url }, [/store\.url: .*no connection left/]);
    } finally {
      await query(databases.storeUrl, `drop role emend_full_${process.pid}`);
    }
  });
});

describe('a connection that is refused is named by its setting:', () => {
  it('a wrong password', async () => {
    const url = changed(databases.sourceUrl, (each) => (each.password = 'hunter2'));
    await expectRefused({ SOURCE_URL: url }, [
      /source\.url/,
      /refused the password of user postgres/,
      /SOURCE_URL/,
    ]);
  });

  it('a password that is missing', async () => {
    const url = changed(databases.sourceUrl, (each) => (each.password = ''));
    await expectRefused({ SOURCE_URL: url, PGPASSWORD: '', PGPASSFILE: '/dev/null' }, [
      /source\.url/,
      /wants a password/,
    ]);
  });

  it('a database that is not there', async () => {
    const url = changed(databases.storeUrl, (each) => (each.pathname = '/gone'));
    await expectRefused({ STORE_URL: url }, [/store\.url/, /no database gone/, /create database/]);
  });

  it('TLS where the server has none', async () => {
    const url = changed(databases.storeUrl, (each) => each.searchParams.set('sslmode', 'require'));
    await expectRefused({ STORE_URL: url }, [/store\.url/, /TLS/, /sslmode/]);
  });

  it('a replication URL of another database', async () => {
    await expectRefused({ REPLICATION_URL: databases.storeUrl }, [
      /source\.replicationUrl: leads to database/,
    ]);
  });

  it('something that is no URL', async () => {
    await expectRefused({ SOURCE_URL: 'localhost:5432/app' }, [/source\.url: is not a Postgres URL/]);
  });

  it('no URL at all, all of them at once', async () => {
    await expectRefused({ SOURCE_URL: '', STORE_URL: '' }, [
      /source\.url: is missing/,
      /store\.url: is missing/,
    ]);
  });
});

describe('a server that is not fit is refused:', () => {
  let dir: string;

  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'emend-unfit-'));
  });

  afterAll(() => {
    rmSync(dir, { recursive: true, force: true });
  });

  it('a source whose wal_level is not logical', async () => {
    const server = await startPostgres({
      dataDir: join(dir, 'postgres'),
      fast: true,
      flags: { wal_level: 'replica', max_wal_senders: '4' },
    });
    try {
      await expectRefused({ SOURCE_URL: server.url() }, [
        /source\.url: wal_level is replica/,
        /wal_level = logical/,
      ]);
    } finally {
      await server.stop();
    }
  });

  it('a Redis that may evict jobs', async () => {
    const redis = await startRedis({ dir: join(dir, 'redis'), policy: 'allkeys-lru', maxmemoryMb: 64 });
    try {
      await expectRefused({ REDIS_URL: redis.url }, [/queue\.redis/, /allkeys-lru/, /noeviction/]);
    } finally {
      await redis.stop();
    }
  });
});

describe('missing rights are told before anything is changed:', () => {
  const role = `emend_weak_${process.pid}`;
  const as = (url: string): string =>
    changed(url, (each) => {
      each.username = role;
      each.password = 'weakling';
    });

  beforeAll(async () => {
    await query(databases.storeUrl, `create role ${role} login password 'weakling'`);
  });

  afterAll(async () => {
    await query(databases.storeUrl, `drop role ${role}`);
  });

  it('of a source user who may neither replicate nor create', async () => {
    await expectRefused({ SOURCE_URL: as(databases.sourceUrl) }, [
      /may not replicate/,
      new RegExp(`user ${role} may not create schema corrections`),
      /grant create on database/,
    ]);
  });

  it('of a store user who does not own the target', async () => {
    await expectRefused({ STORE_URL: as(databases.storeUrl) }, [
      /may not create schema emend/,
      /targets\.prices: public\.prices belongs to postgres/,
    ]);
  });
});

describe('a target that does not fit its table is refused:', () => {
  const period = `period: ['valid_from', 'valid_to']`;

  it.each([
    [
      'a table that does not exist',
      `a: facts('gone', { key: ['id'] })`,
      [/targets\.a: the store has no table public\.gone/],
    ],
    [
      'a table whose name Postgres made lower case',
      `a: facts('public.Prices', { key: ['id'] })`,
      [/no table public\.Prices/, /is it public\.prices\?/],
    ],
    [
      'an open end that its column cannot hold',
      `a: timeline('prices', { key: ['product_id'], ${period}, openEnd: 'banana' })`,
      [/targets\.a\.openEnd: 'banana' is no fixed value of column "valid_to", which is date/, /9999-12-31/],
    ],
    [
      'an open end that is another day tomorrow',
      `a: timeline('prices', { key: ['product_id'], ${period}, openEnd: 'tomorrow' })`,
      [/targets\.a\.openEnd: 'tomorrow' is no fixed value/],
    ],
    [
      'an open end of another axis',
      `a: timeline('numbered', { key: ['id'], period: ['first', 'last'], openEnd: 'infinity' })`,
      [/targets\.a\.openEnd: 'infinity' .*which is integer/],
    ],
    [
      'two targets that would share a function',
      `c: timeline('prices', { key: ['product_id'], ${period} }), c_periods: facts('keyed', { key: ['id'] })`,
      [/targets\.c_periods: .*targets\.c .*emend\.c_periods_as_of/],
    ],
    ['a view', `a: facts('a_view', { key: ['id'] })`, [/is not a table/]],
    [
      'a column that does not exist',
      `a: timeline('prices', { key: ['product'], ${period} })`,
      [/targets\.a\.key: public\.prices has no column "product"/, /product_id/],
    ],
    [
      'a nullable key',
      `a: timeline('nullable', { key: ['id'], ${period} })`,
      [/may be null/, /set not null/],
    ],
    ['a key that cannot be hashed', `a: timeline('unhashable', { key: ['at'], ${period} })`, [/cannot hash/]],
    [
      'a column of a reserved name',
      `a: timeline('reserved', { key: ['id'], ${period} })`,
      [/begins with an underscore/],
    ],
    [
      'a second unique constraint',
      `a: facts('unique_email', { key: ['id'] })`,
      [/unique_email_email_key/, /allow:/],
    ],
    [
      'a CHECK over the period',
      `a: timeline('period_check', { key: ['id'], ${period} })`,
      [/at_most_a_year/, /allow:/],
    ],
    ['a name that cannot be used', `'Bad Name': facts('gone', { key: ['id'] })`, [/targets\.Bad Name/]],
    [
      'a table name that cannot be used',
      `a: facts('a.b.c', { key: ['id'] })`,
      [/'a\.b\.c' is not a table name/],
    ],
    [
      'a misspelt option',
      `a: facts('prices', { key: ['product_id'], eventTme: 'x' })`,
      [/Did you mean eventTime/],
    ],
  ])('%s', async (_case, targets, patterns) => {
    await expectRefused({}, patterns, createCli(configOf(targets), urls));
  });

  it('a misspelt key column is one finding, and no index has to go for it', async () => {
    const misspelt = createCli(configOf(`a: timeline('keyed', { key: ['ide'], ${period} })`), urls);
    await expectRefused({}, [/targets\.a\.key: public\.keyed has no column "ide"/], misspelt);
    const { stderr } = await misspelt.run(['migrate', '--json']);
    expect((JSON.parse(stderr) as { error: { problems: unknown[] } }).error.problems).toHaveLength(1);
  });

  it('migrate --print refuses what migrate refuses', async () => {
    const targets = `a: timeline('prices', { key: ['product_id'], ${period}, openEnd: 'banana' })`;
    const { code, stdout } = await createCli(configOf(targets), urls).run(['migrate', '--print']);
    expect([code, stdout]).toEqual([2, '']);
  });

  it('several problems of several targets, all at once', async () => {
    const targets = `a: facts('gone', { key: ['id'] }), b: timeline('nullable', { key: ['id'], ${period} })`;
    await expectRefused(
      { REDIS_URL: 'redis://127.0.0.1:1' },
      [/targets\.a/, /targets\.b\.key/, /queue\.redis/],
      createCli(configOf(targets), urls),
    );
  });
});

describe('a command line that cannot be understood ends with 2 and says why:', () => {
  it.each([
    [[], /no command was given/],
    [['migrat'], /unknown command/],
    [['status', '--jsn'], /unknown option/],
    [['wait', '--timeout', 'soon'], /number of seconds/],
    [['wait', '--xid', '1'], /pg_current_xact_id/],
    [['at'], /missing required argument 'target'/],
    [['at', 'price'], /Did you mean prices\?/],
    [['at', 'prices', '--limit', '0'], /above zero/],
    [['status', '--config', 'nowhere.ts'], /there is no file .*nowhere\.ts/],
  ])('emend %j', async (args, pattern) => {
    const { code, stdout, stderr } = await cli.run(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(pattern);
  });

  it('with --json the error is JSON on stderr', async () => {
    const { code, stdout, stderr } = await cli.run(['wait', '--timeout', 'soon', '--json']);
    expect([code, stdout]).toEqual([2, '']);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'bad_arguments', remedy: /--help/ } });
  });

  it('help and version are no errors', async () => {
    for (const args of [['--help'], ['at', '--help'], ['--version']]) {
      const { code, stdout, stderr } = await cli.run(args);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout.length).toBeGreaterThan(4);
    }
  });
});
