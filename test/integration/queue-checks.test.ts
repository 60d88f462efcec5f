import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { expect, inject, test } from 'vitest';
import { startRedis } from '../../src/dev/redis.ts';
import { inspectQueue } from '../../src/queue/checks.ts';
import { createDatabases } from '../support/databases.ts';
import { openTestQueue } from '../support/queue.ts';

const prefix = '{emend-checks}';

const checkQueue = async (...of: Parameters<typeof inspectQueue>) => (await inspectQueue(...of)).problems;

test('a good Redis and a good store have no problems', async () => {
  const { redisUrl, storeUrl } = await createDatabases('queue_checks');
  expect(await checkQueue({ redisUrl }, prefix)).toEqual([]);
  expect(await checkQueue({ storeUrl }, prefix)).toEqual([]);
});

test('a Redis that may evict jobs is refused', async () => {
  const { url } = await startOwnRedis({ policy: 'allkeys-lru' });
  await expect(openTestQueue({ redisUrl: url })).rejects.toMatchObject({
    code: 'queue_unsuitable',
    problems: [{ path: 'queue.redis', remedy: expect.stringContaining('noeviction') }],
  });
});

test('a wrong password is refused and not shown', async () => {
  const { url } = await startOwnRedis();
  await withRedis(url, (client) => client.config('SET', 'requirepass', 'right-one'));
  for (const secret of ['', ':wrong-one@', 'somebody:wrong-one@']) {
    const problems = await checkQueue({ redisUrl: url.replace('//', `//${secret}`) }, prefix);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatchObject({ path: 'queue.redis', problem: expect.stringContaining('refuses') });
    expect(JSON.stringify(problems)).not.toMatch(/wrong-one|right-one|somebody/);
  }
});

test('a user without the rights that the queue needs is refused', async () => {
  const { url } = await startOwnRedis();
  await withRedis(url, (client) =>
    client.call('ACL', 'SETUSER', 'reader', 'on', '>secret', '~*', '+info', '+get', '+@connection'),
  );
  const problems = await checkQueue({ redisUrl: url.replace('//', '//reader:secret@') }, prefix);
  expect(problems.map(({ problem }) => problem)).toEqual([
    'the user of Redis may not run EVAL',
    'the user of Redis may not run BZPOPMIN',
  ]);
});

test('a read-only replica and a Redis without memory are told apart', async () => {
  const { url, port } = await startOwnRedis();
  const replica = await startOwnRedis();
  await withRedis(replica.url, (client) => client.call('REPLICAOF', '127.0.0.1', String(port)));
  expect(await problemsOf(replica.url)).toContain('this Redis is a read-only replica');
  await withRedis(url, (client) => client.config('SET', 'maxmemory', '1'));
  expect(await problemsOf(url)).toContain('Redis has no memory left');
});

test('a Redis that is not there, or is none, is unavailable', async () => {
  const { port } = new URL(inject('postgresUrl'));
  for (const url of [
    'redis://:secret@127.0.0.1:1',
    'redis://:secret@nowhere.invalid:6379',
    `redis://127.0.0.1:${port}`,
  ]) {
    const refusal = await openTestQueue({ redisUrl: url }).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: 'queue_unavailable' });
    expect(`${String(refusal)} ${JSON.stringify(refusal)}`).not.toContain('secret');
  }
});

test('a Redis that goes away while it is looked at is unavailable, and not refused for a setting', async () => {
  const { port } = new URL(inject('redisUrl'));
  const proxy = createServer((client) => {
    const server = connect(Number(port), '127.0.0.1');
    client.on('error', () => undefined).on('close', () => server.destroy());
    server.on('error', () => undefined).on('close', () => client.destroy());
    client.on('data', (data) => (/bzpopmin/i.test(data.toString()) ? server.destroy() : server.write(data)));
    server.on('data', (data) => client.write(data));
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  try {
    const redisUrl = `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    await expect(openTestQueue({ redisUrl })).rejects.toMatchObject({ code: 'queue_unavailable' });
  } finally {
    proxy.close();
  }
});

test('an address that is none of Redis is refused', async () => {
  for (const redisUrl of ['localhost', 'http://localhost:6379', 'redis//secret@host']) {
    const problems = await checkQueue({ redisUrl }, prefix);
    expect(problems).toMatchObject([
      { path: 'queue.redis', remedy: expect.stringContaining('redis://host:6379') },
    ]);
    expect(JSON.stringify(problems)).not.toContain('secret');
  }
});

test('a role that can neither use nor create the schema of the queue is refused', async () => {
  const { storeUrl } = await createDatabases('queue_rights');
  const role = `queue_role_${process.pid}`;
  await withPostgres(storeUrl, (client) => client.query(`create role ${role} login password 'secret'`));
  const url = new URL(storeUrl);
  url.username = role;
  url.password = 'secret';
  try {
    const [missing] = await checkQueue({ storeUrl: url.href }, prefix);
    expect(missing).toMatchObject({
      path: 'store.url',
      problem: expect.stringContaining('may not create it'),
    });
    await openTestQueue({ storeUrl });
    const [unusable] = await checkQueue({ storeUrl: url.href }, prefix);
    expect(unusable).toMatchObject({ path: 'store.url', problem: expect.stringContaining('may not use') });
    url.password = 'wrong-one';
    const [refused] = await checkQueue({ storeUrl: url.href }, prefix);
    expect(refused?.problem).toContain('refused the password');
    expect(JSON.stringify(refused)).not.toContain('wrong-one');
  } finally {
    await withPostgres(storeUrl, (client) => client.query(`drop role ${role}`));
  }
});

test('many processes can open a queue in a fresh store at once', async () => {
  const { storeUrl } = await createDatabases('queue_race');
  const queues = await Promise.all(Array.from({ length: 6 }, () => openTestQueue({ storeUrl }, { prefix })));
  const epochs = await Promise.all(queues.map((queue) => queue.epoch()));
  expect(new Set(epochs).size).toBe(1);
  for (const queue of queues) expect(await queue.createDurable()()).toBe(true);
});

async function problemsOf(redisUrl: string): Promise<string[]> {
  return (await checkQueue({ redisUrl }, prefix)).map(({ problem }) => problem);
}

function startOwnRedis(options: { policy?: string } = {}) {
  return startRedis({ dir: mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`)), ...options });
}

async function withRedis(url: string, body: (client: Redis) => Promise<unknown>): Promise<void> {
  const client = new Redis(url);
  await body(client).finally(() => client.disconnect());
}

async function withPostgres(url: string, body: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await body(client).finally(() => client.end());
}
