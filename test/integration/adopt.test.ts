import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Pool } from 'pg';
import type { TargetDeclaration } from '../../src/config/target-declaration.ts';
import { isEmendError } from '../../src/errors.ts';
import { createDatabases } from '../support/databases.ts';
import { batchOf, createStore, logRows, noAbort } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';

const prices = (period: Partial<NonNullable<TargetDeclaration['period']>> = {}) => ({
  name: 'prices',
  kind: 'timeline' as const,
  key: ['product'],
  period: { from: 'valid_from', to: 'valid_to', mode: 'override' as const, ...period },
});
const table = (rows: string, end = 'date') =>
  `create table public.prices (product text not null, valid_from date not null, valid_to ${end}, price numeric);
   insert into public.prices values ${rows};`;

describe('adopting a table that has rows', () => {
  let url: string;
  let store: StoreUnderTest | undefined;
  beforeEach(async () => {
    url = (await createDatabases('adopt')).storeUrl;
  });
  afterEach(async () => {
    await store?.pool.end();
    store = undefined;
  });

  const rows = async (pool: Pool, sql: string) => (await pool.query(sql)).rows;

  it('keeps each row as a correction that every later one beats, and the form of its end', async () => {
    store = await createStore(
      url,
      table(
        `('A', '2020-01-01', '2020-12-31', 5), ('A', '2021-01-01', '9999-12-31', 6), ('B', '2020-01-01', '9999-12-31', 7)`,
        'date not null',
      ),
      [prices({ openEnd: '9999-12-31', closed: true })],
      { adopt: true },
    );
    await store.handle(
      batchOf(
        logRows(store.targets[0]!, [
          { _id: 1, product: 'A', valid_from: '2020-06-01', valid_to: '2020-06-30', price: 9 },
          { _id: 2, product: 'A', valid_from: '2021-07-01', valid_to: 'infinity', price: 8 },
        ]),
      ),
      noAbort,
    );
    expect(
      await rows(
        store.pool,
        `select product, valid_from, valid_to, price from emend.prices_periods order by 1, 2`,
      ),
    ).toEqual([
      { product: 'A', valid_from: '2020-01-01', valid_to: '2020-05-31', price: '5' },
      { product: 'A', valid_from: '2020-06-01', valid_to: '2020-06-30', price: '9' },
      { product: 'A', valid_from: '2020-07-01', valid_to: '2020-12-31', price: '5' },
      { product: 'A', valid_from: '2021-01-01', valid_to: '2021-06-30', price: '6' },
      { product: 'A', valid_from: '2021-07-01', valid_to: '9999-12-31', price: '8' },
      { product: 'B', valid_from: '2020-01-01', valid_to: '9999-12-31', price: '7' },
    ]);
    expect(
      await rows(store.pool, `select _version, product, valid_to from emend.prices_baseline order by 1`),
    ).toEqual([
      { _version: '-3', product: 'A', valid_to: '2021-01-01' },
      { _version: '-2', product: 'A', valid_to: 'infinity' },
      { _version: '-1', product: 'B', valid_to: 'infinity' },
    ]);
    expect(
      await rows(store.pool, `select valid_to, price from emend.prices_at('2020-12-31') where product = 'A'`),
    ).toEqual([{ valid_to: '2020-12-31', price: '5' }]);
  });

  it('refuses to say what was believed before the adoption, instead of answering that nothing was', async () => {
    store = await createStore(url, table(`('A', '2020-01-01', 'infinity', 5)`, 'date not null'), [prices()], {
      adopt: true,
    });
    await expect(store.pool.query(`select * from emend.prices_as_of('2019-01-01')`)).rejects.toThrow(
      /its rows were adopted at/,
    );
  });

  it('lists overlaps, empty, reversed and sentinel periods with counts and first rows, and changes nothing', async () => {
    const opening = createStore(
      url,
      table(`('A', '2020-01-01', '2020-03-01', 1), ('A', '2020-02-01', '2020-04-01', 2), ('B', '2020-01-01', '2020-01-01', 3),
        ('C', '2020-02-01', '2020-01-01', 4), ('D', '2020-01-01', '9999-12-31', 5), ('E', '2020-01-01', null, 6)`),
      [prices({ openEnd: null })],
      { adopt: true },
    );
    const error: unknown = await opening.catch((refused: unknown) => refused);
    expect(isEmendError(error) && error.problems.map(({ problem }) => problem)).toEqual([
      '1 row of public.prices: the period is empty; first: B, 2020-01-01, 2020-01-01',
      '1 row of public.prices: the period ends before it begins; first: C, 2020-02-01, 2020-01-01',
      '1 row of public.prices: the period overlaps an earlier one of the same key; first: A, 2020-02-01, 2020-04-01',
      '1 row of public.prices: the period ends so far away that it looks like an open end; first: D, 2020-01-01, 9999-12-31',
    ]);
  });

  it.each([
    ['closed', true],
    ['half-open', false],
  ])('lists rows that start at the sentinel, with %s ends', async (_, closed) => {
    const opening = createStore(
      url,
      table(`('A', '9999-12-31', '9999-12-31', 1), ('B', '2020-01-01', '9999-12-31', 2)`, 'date not null'),
      [prices({ openEnd: '9999-12-31', closed })],
      { adopt: true },
    );
    const error: unknown = await opening.catch((refused: unknown) => refused);
    expect(isEmendError(error) && error.problems.map(({ problem }) => problem)).toEqual([
      '1 row of public.prices: the period begins at the open end 9999-12-31, or beyond it; first: A, 9999-12-31, 9999-12-31',
    ]);
  });

  it('does not adopt without being told to', async () => {
    const opening = createStore(url, table(`('A', '2020-01-01', 'infinity', 5)`, 'date not null'), [
      prices(),
    ]);
    await expect(opening).rejects.toThrow(/has rows already/);
  });

  it('lists facts that have one key', async () => {
    const opening = createStore(
      url,
      `create table public.orders (id text not null, amount numeric); insert into public.orders values ('a', 1), ('a', 2), ('b', 1);`,
      [{ name: 'orders', kind: 'facts', key: ['id'] }],
      { adopt: true },
    );
    const error: unknown = await opening.catch((refused: unknown) => refused);
    expect(isEmendError(error) && error.problems.map(({ problem }) => problem)).toEqual([
      '2 rows of public.orders: another row has the same key; first: a; a',
    ]);
  });
});
