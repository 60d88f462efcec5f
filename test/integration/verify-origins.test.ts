import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { createPool } from '../../src/db/pool.ts';
import { createLogger } from '../../src/observe/logger.ts';
import { importFile } from '../../src/pipeline/import-file.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { createDatabases } from '../support/databases.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'], closed: true }),
    orders: facts('public.orders', { key: ['id'], version: 'revision' }),
    known: timeline('public.known', { key: ['product'], period: ['valid_from'] }),
  },
});

it('adopted rows, imported history and columns that came later are no damage to verify', async () => {
  const databases = await createDatabases('verify origins');
  const folder = mkdtempSync(join(tmpdir(), 'emend-verify-'));
  const config = resolveConfig(
    {
      source: { url: databases.sourceUrl },
      store: { url: databases.storeUrl },
      queue: { redis: databases.redisUrl },
      targets,
    },
    {},
  );
  const source = createPool({ url: databases.sourceUrl, applicationName: 'emend test' });
  const store = createPool({ url: databases.storeUrl, applicationName: 'emend test' });
  const clean = [
    ['prices', 5, {}],
    ['orders', 5, {}],
    ['known', 4, {}],
  ];
  const found = async () =>
    (await verify(config)).map(({ target, corrections, found: kinds }) => [target, corrections, kinds]);
  try {
    await store.query(`
      create domain public.amount as numeric(8, 2) not null check (value >= 0);
      create table public.prices (product text not null, valid_from date not null, valid_to date not null, price public.amount);
      insert into public.prices values ('A', '2020-01-01', '2020-12-31', 5), ('A', '2021-01-01', 'infinity', 6), ('B', '2020-01-01', '2020-01-01', 7);
      create table public.orders (id integer primary key, revision integer not null, amount numeric);
      insert into public.orders values (1, 50, 1), (2, 50, 2);
      create table public.known (product text not null, valid_from date not null, valid_to date not null, price numeric);`);
    await migrate({ config, print: false, adopt: ['prices', 'orders'] });
    const file = join(folder, 'known.csv');
    writeFileSync(
      file,
      'known_at,product,valid_from,price\n2024-01-01,A,2020-01-01,4\n2024-05-01,A,2022-01-01,5\n2024-06-01,A,2021-01-01,6\n',
    );
    await importFile(config, 'known', file, { knownAt: 'known_at' });
    const pipeline = await startPipeline({
      config,
      roles: ['reader', 'worker'],
      log: createLogger({ level: 'silent' }),
    });
    try {
      const write = async (sql: string) => {
        await source.query(sql);
        await waitUntilMerged({ config, timeoutMs: 20_000 });
      };
      // a batch of its own in which the retraction has lost before it stands
      await write(
        `begin;
         insert into corrections.prices (product, valid_from, valid_to, price, _op) values ('A', '2020-06-01', '2020-06-30', null, 'retract');
         insert into corrections.prices (product, valid_from, valid_to, price) values ('A', '2020-06-10', '2021-02-28', 8);
         commit`,
      );
      await write(
        `insert into corrections.orders (id, revision, amount) values (1, 49, 10), (2, 51, 20), (3, 1, 30)`,
      );
      await write(`insert into corrections.known (product, valid_from, price) values ('A', '2021-06-01', 9)`);
      await undo({ config, target: 'prices', id: '-1', reason: 'never so' });
      expect(await found()).toEqual(clean);
      await pipeline.stop();
      await store.query(`alter table public.orders add column currency text not null default 'EUR'`);
      await migrate({ config, print: false });
      expect(await found()).toEqual(clean);
      // of each adopted target its own -1: the one of prices was taken back, that of orders comes back from history now, and
      // has a value in the new column, which takes no null
      const { rows } = await source.query<{ id: string }>(
        `select _id as id from corrections.orders where revision = 51`,
      );
      await undo({ config, target: 'orders', id: rows[0]!.id, reason: 'wrong' });
      const { rows: orders } = await store.query(
        `select id, amount, currency from public.orders where id = 2`,
      );
      expect(orders).toEqual([{ id: '2', amount: '2', currency: 'EUR' }]);
      expect(await found()).toEqual(clean);
    } finally {
      await pipeline.stop();
    }
  } finally {
    await Promise.all([source.end(), store.end()]);
    rmSync(folder, { recursive: true });
  }
});
