import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

describe('requests of backfills that Redis forgot after the source was told that it has them', () => {
  let dir: string;
  let redis: LocalRedis;
  let install: Install;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`));
    redis = await startRedis({ dir });
    install = await createInstall('backfill lost jobs', {
      ddl: `create table public.orders (id integer primary key, amount integer not null)`,
      targets: { orders: facts('public.orders', { key: ['id'] }) },
      redisUrl: redis.url,
    });
    await install.start('reader');
  });
  afterAll(async () => {
    await redis.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const source = async (sql: string) => (await install.source.query(sql)).rows;

  /** The jobs of everything that was asked are on the queue, and the source will not send them again; then they are gone. */
  async function loseJobs(): Promise<void> {
    const [{ lsn }] = await source(`select pg_current_wal_lsn()::text as lsn`);
    await eventually(async () =>
      expect(
        await source(
          `select (confirmed_flush_lsn < '${lsn}'::pg_lsn)::text as behind from pg_replication_slots where database = current_database()`,
        ),
      ).toEqual([{ behind: 'false' }]),
    );
    const client = new Redis(redis.url);
    await client.flushall().finally(() => client.disconnect());
  }

  const asked: [what: string, sql: string[], becomes: string, orders: string][] = [
    [
      'rows to stage and a seal',
      [
        `select corrections.open_backfill('lost', '{orders}', 'a test', 'v1')`,
        `insert into corrections.orders (id, amount, _backfill) select n, n, 'lost' from generate_series(1, 7000) n`,
        `select corrections.chunk_backfill('lost', 'orders')`,
        `select corrections.seal_backfill('lost')`,
      ],
      'checked',
      '0',
    ],
    ['a promote', [`select corrections.promote_backfill('lost')`], 'promoted', '7000'],
    ['a revert', [`select corrections.revert_backfill('lost', 'wrong')`], 'reverted', '0'],
  ];

  it.each(asked)('%s', async (_what, sql, becomes, orders) => {
    for (const statement of sql) await source(statement);
    await loseJobs();
    const worker = await install.start('worker');
    await eventually(
      async () => {
        const { rows } = await install.store.query(`select state from emend.backfill`);
        expect(rows).toEqual([{ state: becomes }]);
      },
      { timeoutMs: 25_000 },
    );
    const { rows } = await install.store.query(`select count(*) as orders from public.orders`);
    expect(rows).toEqual([{ orders }]);
    await worker.stop();
  });
});
