import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { withTransaction } from '../../src/db/transaction.ts';
import { correctColumns } from '../../src/pipeline/correct-columns.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    orders: facts('orders', { key: ['id'] }),
  },
});

describe('only the price, keep the rest', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('correct columns', {
      ddl: `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric, note text);
        create table public.orders (id integer primary key, amount numeric, note text)`,
      targets,
    });
    await install.start();
    await install.source.query(`
      insert into corrections.prices (product, valid_from, valid_to, price, note)
      values ('A', '2020-01-01', '2020-03-01', 1, 'first'), ('A', '2020-03-01', 'infinity', 2, 'second');
      insert into corrections.orders values (1, 10, 'kept')`);
    await install.wait();
  });

  const prices = async () =>
    (
      await install.store.query(
        `select valid_from, valid_to, price, note from emend.prices_periods order by 1`,
      )
    ).rows;

  it('writes one whole-row correction a piece, within the period', async () => {
    const ids = await withTransaction(install.source, (tx) =>
      correctColumns(install.config, tx, targets.prices, {
        key: { product: 'A' },
        from: '2020-02-01',
        to: '2020-04-01',
        set: { price: '9.5' },
        reason: 'half a season',
      }),
    );
    expect(ids).toHaveLength(2);
    await install.wait();
    expect(await prices()).toEqual([
      { valid_from: '2020-01-01', valid_to: '2020-02-01', price: '1', note: 'first' },
      { valid_from: '2020-02-01', valid_to: '2020-03-01', price: '9.5', note: 'first' },
      { valid_from: '2020-03-01', valid_to: '2020-04-01', price: '9.5', note: 'second' },
      { valid_from: '2020-04-01', valid_to: 'infinity', price: '2', note: 'second' },
    ]);
  });

  it('keeps the rest of a fact, and can set null', async () => {
    await correctColumns(install.config, install.source, targets.orders, {
      key: { id: 1 },
      set: { amount: null },
    });
    await install.wait();
    expect((await install.store.query(`select id, amount, note from public.orders`)).rows).toEqual([
      { id: '1', amount: null, note: 'kept' },
    ]);
  });

  it('refuses when another version stands there than the caller saw', async () => {
    const stale = correctColumns(install.config, install.source, targets.prices, {
      key: { product: 'A' },
      set: { price: 1 },
      expectedVersion: '1',
    });
    await expect(stale).rejects.toThrow(/version \d+ stands there, not 1/);
  });

  it('refuses where nothing is, and a column that is no value', async () => {
    const nothing = correctColumns(install.config, install.source, targets.prices, {
      key: { product: 'Z' },
      set: { price: 1 },
    });
    await expect(nothing).rejects.toThrow(/nothing is there for this key and period/);
    const noValue = correctColumns(install.config, install.source, targets.prices, {
      key: { product: 'A' },
      set: { product: 'B' },
    });
    await expect(noValue).rejects.toThrow(/has no value column "product"/);
  });
});
