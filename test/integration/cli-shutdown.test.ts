import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import { createDatabases } from '../support/databases.ts';
import type { Databases } from '../support/databases.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';

const config = `
import { defineConfig, facts } from 'emend'
export default defineConfig({ targets: { orders: facts('orders', { key: ['order_id'] }) } })
`;

let databases: Databases;
let redis: LocalRedis;
let dir: string;
let cli: Cli;
let slot: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'emend-shutdown-'));
  redis = await startRedis({ dir });
  databases = await createDatabases('shutdown');
  await query(databases.storeUrl, 'create table orders (order_id bigint not null, amount numeric)');
  cli = createCli(config, {
    SOURCE_URL: databases.sourceUrl,
    STORE_URL: databases.storeUrl,
    REDIS_URL: redis.url,
  });
  slot = `emend_${(await cli.json<{ install: string }>(['migrate'])).install}`;
});

afterAll(async () => {
  await redis.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** A server that neither answers nor refuses: the worst case of a shutdown. */
async function whileRedisHangs(body: () => Promise<void>): Promise<void> {
  process.kill(redis.pid, 'SIGSTOP');
  try {
    await body();
  } finally {
    process.kill(redis.pid, 'SIGCONT');
  }
}

it('start ends within 10 s with exit code 0 though Redis hangs', async () => {
  const started = cli.start(['start']);
  await started.said('reading the source');
  await whileRedisHangs(async () => {
    const askedAt = performance.now();
    started.process.kill('SIGTERM');
    const { code } = await started.ended;
    expect([code, performance.now() - askedAt < 10_000]).toEqual([0, true]);
  });
});

it('a second signal is meant: start ends at once', async () => {
  const started = cli.start(['start']);
  await started.said('reading the source');
  await whileRedisHangs(async () => {
    started.process.kill('SIGTERM');
    await started.said('stopping');
    const askedAt = performance.now();
    started.process.kill('SIGTERM');
    const { code } = await started.ended;
    expect([code, performance.now() - askedAt < 1_000]).toEqual([143, true]);
  });
});

it('a second reader waits, and takes over when the first one ends', async () => {
  const first = cli.start(['reader']);
  await first.said('reading the source');
  const second = cli.start(['reader']);
  await second.said('emend is running');
  first.process.kill('SIGTERM');
  expect((await first.ended).code).toBe(0);
  await second.said('reading the source');
  second.process.kill('SIGTERM');
  expect((await second.ended).code).toBe(0);
});

// the last: before PostgreSQL 18 its slot is of no use any more
it('start that cannot go on until somebody acts ends with exit code 1 and says what to do', async () => {
  const started = cli.start(['start']);
  await started.said('reading the source');
  await query(databases.sourceUrl, `drop publication ${slot}`);
  await query(databases.sourceUrl, `insert into corrections.orders (order_id, amount) values (1, 1)`);
  const { code, stderr } = await started.ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(/publication[\s\S]*emend migrate/);
  expect((await cli.json<{ statements: unknown[] }>(['migrate'])).statements).toHaveLength(1);
});
