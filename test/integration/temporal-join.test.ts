import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withClient } from '../../src/db/transaction.ts';
import { tick } from '../../src/store/clock.ts';
import { createDatabases } from '../support/databases.ts';
import { createStore } from '../support/store.ts';

/** 100,000 customers who all moved on March 1, which nobody knew before March 20; a million orders before and after. */
const customers = 100_000;
const orders = 1_000_000;

describe('joins of a million facts with 100,000 keys', () => {
  /** As an analyst connects: none of the settings of sessions that merge. */
  let analyst: pg.Pool;

  beforeAll(async () => {
    const { storeUrl } = await createDatabases('temporal join');
    const store = await createStore(
      storeUrl,
      `create table public.customers (customer_id text not null, valid_from date not null, valid_to date not null, region text);
       create table public.orders (order_id integer not null, customer_id text not null, day date not null)`,
      [
        {
          name: 'customers',
          kind: 'timeline',
          key: ['customer_id'],
          period: { from: 'valid_from', to: 'valid_to', mode: 'until_next' },
        },
        { name: 'orders', kind: 'facts', key: ['order_id'] },
      ],
    );
    analyst = new pg.Pool({ connectionString: storeUrl, max: 1, statement_timeout: 60_000 });
    await store.pool.query(`
      insert into public.customers (customer_id, valid_from, valid_to, region, _version, _known_from)
      select 'c' || n, piece.valid_from, piece.valid_to, piece.region, n * 2 + piece.place, '2025-03-20'
      from generate_series(1, ${customers}) n,
        (values (0, date '2024-06-01', date '2025-03-01', 'Northeast'), (1, '2025-03-01', 'infinity', 'Southwest'))
          as piece (place, valid_from, valid_to, region)`);
    await store.pool.query(`
      insert into emend.customers_history (customer_id, valid_from, valid_to, region, _version, _known_from, _known_to)
      select customer_id, valid_from, 'infinity', region, _version, '2024-06-03', _known_from
      from public.customers where region = 'Northeast'`);
    await store.pool.query(`
      insert into public.orders (order_id, customer_id, day, _version, _known_from)
      select n, 'c' || (n::bigint * 7919 % ${customers} + 1), date '2024-07-01' + n % 400, ${customers} * 2 + 2 + n, '2025-09-01'
      from generate_series(1, ${orders}) n`);
    await store.pool.query('vacuum analyze public.customers, emend.customers_history, public.orders');
    await withClient(store.pool, tick);
    await store.pool.end();
  }, 180_000);
  afterAll(() => analyst?.end());

  const join = (arguments_: string, kind = 'left join') => `
    from public.orders o
    ${kind} lateral (select * from emend.customers_at(${arguments_}) c where c.customer_id = o.customer_id) c on true`;

  async function explain(sql: string, how = ''): Promise<string> {
    const { rows } = await analyst.query<{ 'QUERY PLAN': string }>(`explain ${how} ${sql}`);
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  }

  /** How often any node below a join was run: what each row repeats has to be a look-up in an index. */
  function expectNoScanPerRow(plan: string): void {
    expect(plan).not.toContain('Function Scan');
    expect(plan).not.toMatch(/Filter:.*require_known/);
    for (const line of plan.split('\n').filter((each) => each.includes('Seq Scan')))
      expect(line).toMatch(/loops=[1-9]\b/); // once, or once a parallel worker
  }

  it.each([
    ['as believed today', 'o.day', { before: 'Northeast', after: 'Southwest' }],
    ['as believed in January', `o.day, '2025-01-31'`, { before: 'Northeast', after: 'Northeast' }],
  ])('%s: every order finds its own region, and no row scans a table', async (_, arguments_, regions) => {
    const { rows } = await analyst.query<{ after_move: boolean; region: string; orders: number }>(
      `select o.day >= '2025-03-01' as after_move, c.region, count(*)::int as orders ${join(arguments_)} group by 1, 2 order by 1, 2`,
    );
    expect(rows).toEqual([
      { after_move: false, region: regions.before, orders: 607_500 },
      { after_move: true, region: regions.after, orders: 392_500 },
    ]);
    const plan = await explain(
      `select c.region, count(*) ${join(arguments_)} group by 1`,
      '(analyze, timing off)',
    );
    expectNoScanPerRow(plan);
    expect(plan).toMatch(
      /Hash (Right |Left )?Join|Merge (Right |Left )?Join|Index (Only )?Scan using emend_customers_key/,
    );
  });

  it.each([
    ['as believed today', 'o.day', ['emend_customers_key']],
    [
      'as believed in January',
      `o.day, '2025-01-31'`,
      ['emend_customers_key', 'customers_history_customer_id_valid_from_idx'],
    ],
  ])('%s: a few orders are a few look-ups in the key index', async (_, arguments_, indexes) => {
    const plan = await explain(
      `select o.order_id, c.region ${join(arguments_)} where o.order_id between 5000 and 5100`,
      '(analyze, timing off)',
    );
    expectNoScanPerRow(plan);
    expect(plan).not.toMatch(/Seq Scan/);
    for (const index of indexes) expect(plan).toContain(index);
  });

  it('a sub-select or clock_timestamp() as an argument stops inlining, as the documentation says', async () => {
    expect(await explain(`select * from emend.customers_at((select max(day) from public.orders))`)).toContain(
      'Function Scan',
    );
    expect(await explain(`select * from emend.customers_at('2025-01-01', clock_timestamp())`)).toContain(
      'Function Scan',
    );
    expect(await explain(`select * from emend.customers_at('2025-01-01', now())`)).not.toContain(
      'Function Scan',
    );
    expect(await explain(`select * from emend.customers_at('2025-01-01', emend.settled())`)).not.toContain(
      'Function Scan',
    );
  });
});
