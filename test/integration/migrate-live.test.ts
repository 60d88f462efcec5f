import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { defineConfig, timeline } from '../../src/config/define-config.ts';
import { createLogger } from '../../src/observe/logger.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { sweepNow } from '../../src/pipeline/sweep-now.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { eventually } from '../support/eventually.ts';
import { createDatabases } from '../support/databases.ts';
import { createInstall } from '../support/install.ts';
import { query } from '../support/query.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: { prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }) },
});

describe('a column that is added while everything runs', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('migrate live', {
      ddl: `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric)`,
      targets,
    });
    await install.start();
  });

  const write = (columns: string, values: string) =>
    install.source.query(
      `insert into corrections.prices (product, valid_from, ${columns}) values ('A', ${values})`,
    );
  const rows = async (sql: string) => (await install.store.query(sql)).rows;

  it('needs no restart: workers take it up, rows written before it get its default, and history keeps its values', async () => {
    await write('price', `'2020-01-01', 1`);
    await install.wait();
    await install.store.query(`alter table public.prices add column unit text not null default 'kg'`);
    // the log does not have the column yet
    await write('price', `'2020-02-01', 2`);
    await install.wait();
    await migrate({ config: install.config, print: false });
    await write('price, unit', `'2020-03-01', 3, 'lb'`);
    await write('price', `'2020-04-01', 4`);
    await install.wait();
    await write('price, unit', `'2020-03-15', 5, 'oz'`);
    await install.wait();
    expect(await rows(`select valid_from, price, unit from public.prices order by 1`)).toEqual([
      { valid_from: '2020-01-01', price: '1', unit: 'kg' },
      { valid_from: '2020-02-01', price: '2', unit: 'kg' },
      { valid_from: '2020-03-01', price: '3', unit: 'lb' },
      { valid_from: '2020-03-15', price: '5', unit: 'oz' },
    ]);
    // how often a row was superseded depends on how the corrections met in batches
    expect(
      await rows(`select distinct price, unit from emend.prices_history where price in (3, 4) order by 1`),
    ).toEqual([
      { price: '3', unit: 'lb' },
      { price: '4', unit: 'kg' },
    ]);
    expect(await rows(`select unit from emend.prices_at('2020-03-10')`)).toEqual([{ unit: 'lb' }]);
  });
});

describe('a target that is added while everything runs', () => {
  it('stops nothing of the others, and its rows are merged by the first start that knows it', async () => {
    const install = await createInstall('migrate target live', {
      ddl: `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
            create table public.rates (currency text not null, valid_from date not null, valid_to date not null, rate numeric)`,
      targets,
    });
    const running = await install.start();
    const rates = timeline('public.rates', { key: ['currency'], period: ['valid_from', 'valid_to'] });
    const larger = resolveConfig(
      {
        source: install.config.source,
        store: install.config.store,
        queue: { redis: install.config.queue.redis! },
        targets: { ...targets, rates },
      },
      {},
    );
    await migrate({ config: larger, print: false });
    await install.source.query(
      `insert into corrections.rates (currency, valid_from, rate) values ('EUR', '2020-01-01', 1.1)`,
    );
    await install.source.query(
      `insert into corrections.prices (product, valid_from, price) values ('A', '2020-01-01', 1)`,
    );
    await install.wait();
    expect((await install.store.query(`select price from public.prices`)).rows).toEqual([{ price: '1' }]);
    const problemsOfRates = async () => {
      const { sweep, problems } = await readStatus(larger);
      return { ...sweep, problems: problems.filter(({ path }) => path === 'targets.rates') };
    };
    await eventually(async () => {
      expect(await problemsOfRates()).toMatchObject({
        behindMs: null,
        leftOut: ['rates'],
        problems: [{ problem: expect.stringMatching(/no running worker knows it/) }],
      });
    });
    expect(await sweepNow({ config: larger, timeoutMs: 20_000 })).toMatchObject({ leftOut: ['rates'] });

    await running.stop();
    const next = await startPipeline({
      config: larger,
      roles: ['reader', 'worker'],
      log: createLogger({ level: 'silent' }),
    });
    next.ended.catch(() => {});
    onTestFinished(() => next.stop());
    await waitUntilMerged({ config: larger, timeoutMs: 20_000 });
    expect((await install.store.query(`select rate from public.rates`)).rows).toEqual([{ rate: '1.1' }]);
    await eventually(async () =>
      expect(await problemsOfRates()).toMatchObject({
        behindMs: expect.any(Number),
        leftOut: [],
        problems: [],
      }),
    );
  });
});

describe('a second store over one source', () => {
  const ddl = `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric)`;

  it('is refused while it is new, and nothing is changed; the first goes on, and a new one is taken where that one is said to be gone', async () => {
    const install = await createInstall('migrate two stores', { ddl, targets });
    const { config, source } = install;
    await install.start();
    await source.query(`insert into corrections.prices (product, valid_from, price) values ('A', '2020-01-01', 1)`);
    await install.wait();
    const other = await createDatabases('migrate other store');
    const second = { ...config, store: { ...config.store, url: other.storeUrl } };
    await query(other.storeUrl, ddl);
    for (const print of [true, false])
      await expect(migrate({ config: second, print })).rejects.toMatchObject({
        disposition: 'refuse',
        problems: [{ path: 'store.url', problem: expect.stringContaining('has had another one since'), remedy: expect.stringContaining('store_since = null') }],
      });
    expect(await query(other.storeUrl, `select from pg_namespace where nspname = 'emend'`)).toEqual([]);
    expect((await migrate({ config, print: false })).statements, 'of the first one').toEqual([]);

    await source.query(`update corrections._install set store_since = null`);
    await migrate({ config: second, print: false });
    const { rows } = await source.query(`select id from corrections._install where store_since is not null`);
    expect(await query(other.storeUrl, `select id from emend.install`)).toEqual(rows);
  }); // prettier-ignore
});

describe('a store that belongs to an install, beside a source that belongs to none', () => {
  const ddl = `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric)`;

  it('is what a first migrate leaves that is killed between its commits: it is said how to go on, unless a worker has run there', async () => {
    const install = await createInstall('migrate half', { ddl, targets });
    const empty = await createDatabases('migrate half again');
    const over = (url: string) => ({ ...install.config, source: { ...install.config.source, url, replicationUrl: url } });
    const config = over(empty.sourceUrl);
    const refused = async (url: string) => {
      const error = await migrate({ config: over(url), print: false }).catch((caught: unknown) => caught);
      return (error as { problems: { path: string; remedy: string }[] }).problems;
    };
    expect(await refused(empty.sourceUrl)).toMatchObject([{ path: 'store.url', remedy: expect.stringContaining('delete from emend.install') }]);
    await install.store.query(`delete from emend.install`);
    await migrate({ config, print: false });
    expect((await migrate({ config, print: false })).statements).toEqual([]);

    const running = await startPipeline({ config, roles: ['reader', 'worker'], log: createLogger({ level: 'silent' }) });
    running.ended.catch(() => {});
    await query(empty.sourceUrl, `insert into corrections.prices (product, valid_from, price) values ('A', '2020-01-01', 1)`);
    await waitUntilMerged({ config, timeoutMs: 20_000 });
    expect((await install.store.query(`select price from public.prices`)).rows).toEqual([{ price: '1' }]);
    await running.stop();
    const third = await createDatabases('migrate half of another');
    expect(await refused(third.sourceUrl)).toMatchObject([{ path: 'store.url', remedy: expect.not.stringContaining('delete from') }]);
  }); // prettier-ignore
});
