import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import type { Status } from '../../src/pipeline/status-report.ts';
import { createDatabases } from '../support/databases.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';

const config = `
import { defineConfig, facts } from 'emend'
export default defineConfig({ targets: { orders: facts('orders', { key: ['order_id'] }) } })
`;

const commands = [
  ['migrate'],
  ['start'],
  ['reader'],
  ['worker'],
  ['status'],
  ['wait'],
  ['sweep'],
  ['verify'],
  ['at', 'orders'],
  ['explain', 'orders', '--key', '1'],
  ['undo', 'orders', '1', '--reason', 'typo'],
  ['import', 'orders', 'known.csv', '--known-at', 'known_at'],
  ['dead', 'list'],
  ['dead', 'retry', '--all'],
  ['dead', 'discard', '1', '--reason', 'typo'],
].map((args): [string, string[]] => [args.join(' '), args]);
const ofQueue = commands.filter(([name]) => /^(migrate|start|reader|worker|sweep)$/.test(name));
/** Reader and worker wait for a source that is away; the others have nothing to do without it. */
const ofSource = commands.filter(([name]) => /^(migrate|status|wait|sweep|verify|undo|import)/.test(name));

describe('a server that is away ends every command with 1, one that is not fit with 2', () => {
  let dir: string;
  let unfit: LocalRedis;
  let cli: Cli;

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'emend-exit-'));
    unfit = await startRedis({ dir, policy: 'allkeys-lru', maxmemoryMb: 64 });
    const databases = await createDatabases('exit codes');
    await query(databases.storeUrl, 'create table orders (order_id bigint not null, amount numeric)');
    cli = createCli(config, {
      SOURCE_URL: databases.sourceUrl,
      STORE_URL: databases.storeUrl,
      REDIS_URL: databases.redisUrl,
    });
    writeFileSync(join(cli.dir, 'known.csv'), 'known_at,order_id\n2026-01-01,1\n');
    await cli.json(['migrate']);
  });

  afterAll(async () => {
    await unfit.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  it.each(commands)('emend %s, without the store', async (_, args) => {
    const { code, stdout, stderr } = await cli.run(args, {
      STORE_URL: 'postgres://app:hunter2@127.0.0.1:1/x',
    });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^emend: store\.url: no Postgres answers at 127\.0\.0\.1:1/);
  });

  it.each(ofSource)('emend %s, without the source', async (_, args) => {
    const { code, stdout, stderr } = await cli.run(args, {
      SOURCE_URL: 'postgres://app:hunter2@127.0.0.1:1/x',
    });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^emend: source\.url: no Postgres answers at 127\.0\.0\.1:1/);
  });

  it.each(ofQueue)('emend %s, without Redis, and says so once', async (_, args) => {
    const { code, stdout, stderr } = await cli.run(args, { REDIS_URL: 'redis://127.0.0.1:1' });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr.split('cannot be reached')).toHaveLength(2);
  });

  it.each(ofQueue)('emend %s, with a Redis that may evict jobs, and says so once', async (_, args) => {
    const { code, stdout, stderr } = await cli.run(args, { REDIS_URL: unfit.url });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.split('maxmemory-policy is allkeys-lru')).toHaveLength(2);
  });

  it('status tells a Redis that does not answer from one that does and is not fit', async () => {
    const queueOf = async (url: string): Promise<[string, Status]> => {
      const text = await cli.run(['status'], { REDIS_URL: url });
      const json = await cli.run(['status', '--json'], { REDIS_URL: url });
      expect([text.code, json.code, text.stderr, json.stderr]).toEqual([1, 1, '', '']);
      return [text.stdout, JSON.parse(json.stdout) as Status];
    };
    const [awayText, away] = await queueOf('redis://127.0.0.1:1');
    expect(awayText).toMatch(/queue +redis, does not answer/);
    expect(away.queue).toEqual({ kind: 'redis', reachable: false });
    const [unfitText, { queue, problems }] = await queueOf(unfit.url);
    expect(unfitText).toMatch(/queue +redis, answers, and cannot be used as it is/);
    expect(queue).toEqual({ kind: 'redis', reachable: true });
    expect(problems).toContainEqual(expect.objectContaining({ path: 'queue.redis' }));
  });
});
