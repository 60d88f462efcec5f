import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../src/dev/redis.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';

const config = `
import { defineConfig, facts } from 'emend'
export default defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } })
`;

interface OwnRedis {
  readonly url: string;
  readonly dir: string;
  readonly client: Redis;
}

/** What a Redis suffers at run time, and what ends it: nothing of it is the configuration's fault. */
const stalls: { name: string; says: string; begin(of: OwnRedis): Promise<void>; end(of: OwnRedis): Promise<void> }[] = [
  {
    name: 'OOM',
    says: 'Redis has no memory left',
    begin: async ({ client }) => void (await client.config('SET', 'maxmemory', '1')),
    end: async ({ client }) => void (await client.config('SET', 'maxmemory', '0')),
  },
  {
    name: 'MISCONF',
    says: 'Redis refuses writes because it cannot save to disk',
    async begin({ client, dir }) {
      // a folder where its file has to go: that stops root too
      mkdirSync(join(dir, 'dump.rdb'));
      await client.config('SET', 'save', '3600 1');
      await save(client, 'err');
    },
    async end({ client, dir }) {
      rmSync(join(dir, 'dump.rdb'), { recursive: true });
      await save(client, 'ok');
    },
  },
  {
    name: 'NOREPLICAS',
    says: 'Redis refuses writes because too few replicas follow it',
    begin: async ({ client }) => void (await client.config('SET', 'min-replicas-to-write', '1')),
    end: async ({ client }) => void (await client.config('SET', 'min-replicas-to-write', '0')),
  },
]; // prettier-ignore

async function save(client: Redis, status: 'ok' | 'err'): Promise<void> {
  await client.bgsave();
  await eventually(async () =>
    expect(await client.info('persistence')).toContain(`rdb_last_bgsave_status:${status}`),
  );
}

it.each(stalls)(
  'a Redis that answers $name at a start is waited for, is named, and work goes on by itself',
  async ({ says, ...stall }) => {
    const redis = await startOwnRedis();
    const { sourceUrl, storeUrl } = await createDatabases('queue stalled');
    await query(storeUrl, 'create table public.orders (id integer not null, amount integer)');
    const urls = { SOURCE_URL: sourceUrl, STORE_URL: storeUrl, REDIS_URL: redis.url };
    const cli = createCli(config, urls);
    await cli.json(['migrate']);
    await stall.begin(redis);

    const running = cli.start(['start']);
    await running.said('emend is running');
    await query(sourceUrl, 'insert into corrections.orders (id, amount) values (1, 1)');
    await running.said('"waitingBatches":1');
    const status = await cli.run(['status']);
    expect(status).toMatchObject({ code: 1, stderr: '' });
    expect(status.stdout).toContain(says);
    expect(running.stderr().split(says)).toHaveLength(2);

    await stall.end(redis);
    // longer than a reader rests between two attempts
    await eventually(
      async () => expect(await query(storeUrl, 'select amount from public.orders')).toEqual([{ amount: 1 }]),
      { timeoutMs: 30_000 },
    );
    await running.said('the queue accepts batches again');
    // an outage of some seconds is no flood
    expect(running.stderr().split('\n').length).toBeLessThan(25);
    running.process.kill('SIGTERM');
    expect((await running.ended).code).toBe(0);
  },
);

it('commands that have nothing to do without the queue fail for now (1), and are not refused (2)', async () => {
  const redis = await startOwnRedis();
  const { sourceUrl, storeUrl } = await createDatabases('queue stalled');
  await query(storeUrl, 'create table public.orders (id integer not null, amount integer)');
  const cli = createCli(config, { SOURCE_URL: sourceUrl, STORE_URL: storeUrl, REDIS_URL: redis.url });
  await redis.client.config('SET', 'maxmemory', '1');
  for (const command of ['migrate', 'sweep']) {
    const { code, stderr } = await cli.run([command]);
    expect([command, code]).toEqual([command, 1]);
    expect(stderr.split('Redis has no memory left')).toHaveLength(command === 'migrate' ? 2 : 1);
  }
});

it('a Redis that may evict jobs is refused at a start, also when it has no memory left', async () => {
  const redis = await startOwnRedis({ policy: 'volatile-lru' });
  const { sourceUrl, storeUrl } = await createDatabases('queue stalled');
  await query(storeUrl, 'create table public.orders (id integer not null, amount integer)');
  const cli = createCli(config, { SOURCE_URL: sourceUrl, STORE_URL: storeUrl, REDIS_URL: redis.url });
  await redis.client.config('SET', 'maxmemory-policy', 'noeviction');
  await cli.json(['migrate']);
  await redis.client.config('SET', 'maxmemory-policy', 'volatile-lru');
  await redis.client.config('SET', 'maxmemory', '1');
  const { code, stderr } = await cli.run(['start']);
  expect(code).toBe(2);
  expect(stderr).toContain('maxmemory-policy is volatile-lru');
});

async function startOwnRedis(options: { policy?: string } = {}): Promise<OwnRedis> {
  const dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`));
  const server = await startRedis({ dir, ...options });
  const client = new Redis(server.url);
  onTestFinished(async () => {
    client.disconnect();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  return { url: server.url, dir, client };
}
