import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { tick } from '../../src/store/clock.ts';
import { createDatabases } from '../support/databases.ts';
import { createStore } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';

/** 100,000 keys of ten pieces each, one in ten pieces superseded once: where a plan that scans shows. */
const keys = 100_000;

describe('temporal joins at a million pieces', () => {
  let store: StoreUnderTest;
  /** A session without the settings of merges: the planner is free to scan. */
  let analyst: Pool;

  beforeAll(async () => {
    const { storeUrl } = await createDatabases('reading plan');
    analyst = createPool({ url: storeUrl, applicationName: 'emend test', max: 1 });
    store = await createStore(
      storeUrl,
      `create table public.prices (product_id text not null, valid_from date not null, valid_to date not null, price numeric);
       create table public.orders (order_id integer primary key, product_id text not null, day date not null)`,
      [
        {
          name: 'prices',
          kind: 'timeline',
          key: ['product_id'],
          period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
        },
      ],
    );
    await store.pool.query(`
      insert into public.prices
      select 'p' || k, date '2020-01-01' + 30 * piece, date '2020-01-31' + 30 * piece, piece, k * 10 + piece, '2020-01-01'
      from generate_series(1, ${keys}) k, generate_series(0, 9) piece`);
    await store.pool.query(`
      insert into emend.prices_history
      select product_id, valid_from, valid_to, price - 1, _version, '2019-01-01', '2020-01-01' from public.prices where _version % 10 = 0`);
    await store.pool.query(`
      insert into public.orders
      select n, 'p' || (n * 97 % ${keys} + 1), date '2020-01-01' + n % 300 from generate_series(1, 1000) n`);
    await store.pool.query('analyze public.prices, emend.prices_history, public.orders');
    await withClient(store.pool, tick);
  }, 120_000);
  afterAll(async () => {
    await analyst?.end();
    await store?.pool.end();
  });

  async function explain(sql: string): Promise<string> {
    const { rows } = await analyst.query<{ 'QUERY PLAN': string }>(`explain (analyze, timing off) ${sql}`);
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  }

  function expectIndexed(plan: string): void {
    expect(plan).not.toContain('Function Scan');
    expect(plan).not.toMatch(/Seq Scan on (prices|prices_history)/);
    expect(plan).toContain('emend_prices_key');
    expect(Number(/Execution Time: ([\d.]+)/.exec(plan)?.[1])).toBeLessThan(1000);
  }

  it('a join with the present is inlined and uses the key index', async () => {
    const join =
      'select count(price) from public.orders o left join lateral (select * from emend.prices_at(o.day) p where p.product_id = o.product_id) p on true';
    expectIndexed(await explain(join));
  });

  it('a join with a time of belief is inlined and uses the key index of target and history', async () => {
    const join = `select count(price) from public.orders o
      left join lateral (select * from emend.prices_at(o.day, emend.settled()) p where p.product_id = o.product_id) p on true`;
    const plan = await explain(join);
    expectIndexed(plan);
    expect(plan).toContain('prices_history_product_id_valid_from_idx');
  });

  it('the guard of unsettled times is asked once, not once a row', async () => {
    const plan = await explain(`select * from emend.prices_as_of('2019-06-01') where product_id = 'p5'`);
    expect(plan).toContain('One-Time Filter');
    expectIndexed(plan);
  });

  it('a key test on _periods reaches the index below the windows', async () => {
    expectIndexed(await explain(`select * from emend.prices_periods where product_id = 'p5'`));
    expectIndexed(
      await explain(`select * from emend.prices_periods_as_of('2020-01-01') where product_id = 'p5'`),
    );
  });

  it('a prepared look-up of the present never touches history', async () => {
    await analyst.query(`set plan_cache_mode = force_generic_plan`);
    const plan = await explain(`select * from emend.prices_at('2020-02-01') where product_id = 'p5'`);
    expectIndexed(plan);
    expect(plan).not.toContain('history');
  });

  it('answers what the row itself says', async () => {
    const { rows } = await store.pool.query(
      `select (select price from emend.prices_at('2020-01-15') where product_id = 'p7') as now,
              (select price from emend.prices_at('2020-01-15', '2019-06-01') where product_id = 'p7') as then`,
    );
    expect(rows).toEqual([{ now: '0', then: '-1' }]);
  });
});
