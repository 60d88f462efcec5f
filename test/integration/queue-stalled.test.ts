import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { startRedis } from '../../src/dev/redis.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';

const config = `
import { defineConfig, facts } from 'emend'
export default defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } })
`;

const ddl = 'create table public.orders (id integer not null, amount integer)';
const targets = { orders: facts('public.orders', { key: ['id'] }) };

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
    const install = await createInstall('queue stalled', { ddl, targets, redisUrl: redis.url });
    await stall.begin(redis);

    const lines: string[] = [];
    const log = pino({}, { write: (line: string) => void lines.push(line) });
    const pipeline = await startPipeline({ config: install.config, roles: ['reader', 'worker'], log });
    onTestFinished(() => pipeline.stop());
    const said = (text: string): number => lines.filter((line) => line.includes(text)).length;
    await install.source.query('insert into corrections.orders (id, amount) values (1, 1)');
    // a reader tries for ten seconds before it says so
    await eventually(() => expect(said('"waitingBatches":1')).toBe(1), { timeoutMs: 30_000 });
    expect(said(says)).toBe(1);
    const { problems } = await readStatus(install.config);
    expect(problems).toContainEqual(expect.objectContaining({ path: 'queue.redis', problem: says }));

    await stall.end(redis);
    const merged = () => install.store.query('select amount from public.orders');
    await eventually(async () => expect((await merged()).rows).toEqual([{ amount: '1' }]), {
      timeoutMs: 30_000,
    });
    await eventually(() => expect(said('the queue accepts batches again')).toBe(1));
    // an outage of some seconds is no flood
    expect(lines.length).toBeLessThan(30);
  },
  120_000,
);

it('emend start runs on a Redis without memory; commands that need the queue fail for now (1), and are not refused (2)', async () => {
  const redis = await startOwnRedis();
  const { sourceUrl, storeUrl } = await createDatabases('queue stalled');
  await query(storeUrl, ddl);
  const cli = createCli(config, { SOURCE_URL: sourceUrl, STORE_URL: storeUrl, REDIS_URL: redis.url });
  await redis.client.config('SET', 'maxmemory', '1');
  const refused = await cli.run(['migrate']);
  expect([refused.code, refused.stderr.split('Redis has no memory left').length]).toEqual([1, 2]);
  await redis.client.config('SET', 'maxmemory', '0');
  await cli.json(['migrate']);

  await redis.client.config('SET', 'maxmemory', '1');
  const running = cli.start(['start']);
  await running.said('emend is running');
  running.process.kill('SIGTERM');
  expect((await running.ended).code).toBe(0);

  // what has to be corrected stays a refusal beside what passes
  await redis.client.config('SET', 'maxmemory-policy', 'volatile-lru');
  const { code, stderr } = await cli.run(['start']);
  expect(code).toBe(2);
  expect(stderr).toContain('maxmemory-policy is volatile-lru');
}, 120_000);

async function startOwnRedis(): Promise<OwnRedis> {
  const dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`));
  const server = await startRedis({ dir });
  const client = new Redis(server.url);
  onTestFinished(async () => {
    client.disconnect();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  return { url: server.url, dir, client };
}
