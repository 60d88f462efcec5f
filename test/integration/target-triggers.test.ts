import type { PoolClient } from 'pg';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { checkResult } from '../../src/backfill/check-result.ts';
import type { Backfill } from '../../src/backfill/state.ts';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    states: timeline('public.states', { key: ['id'], period: ['since', 'until'], mode: 'until_next' }),
    orders: facts('public.orders', { key: ['id'] }),
    sales: facts('public.sales', { key: ['id'] }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.states (id text not null, since date not null, until date not null, state text);
  create table public.orders (id text not null, amount numeric);
  create table public.sales (id text not null, price numeric) partition by hash (id);
  create table public.sales_0 partition of public.sales for values with (modulus 1, remainder 0);
  create function public.keeps_out() returns trigger language plpgsql as 'begin return null; end';
  create function public.rounds() returns trigger language plpgsql as 'begin new.price := round(new.price); return new; end';
  create function public.shifts() returns trigger language plpgsql as 'begin new.valid_to := new.valid_to + 1; return new; end';
  create function public.looks() returns trigger language plpgsql as 'begin return new; end'`;

describe('a table with a trigger', () => {
  let install: Install;
  let name: string;
  let count = 0;
  beforeAll(async () => {
    install = await createInstall('target triggers', { ddl, targets });
    await install.start();
  });
  beforeEach(() => {
    name = `b-${++count}`;
  });

  const source = (sql: string, values: unknown[] = []) => install.source.query(sql, values);
  const store = async (sql: string, values: unknown[] = []) => (await install.store.query(sql, values)).rows;
  const withTrigger = async (when: string, what: string, body: () => Promise<void>, only = 'true') => {
    const table = when.split(' on ')[1]!;
    await store(`create trigger t ${when} for each row when (${only}) execute function public.${what}()`);
    await body().finally(() => store(`drop trigger t on ${table}`));
  };
  const price = (product: string, from: string, amount: number | null, backfill: string | null = null) =>
    source(
      `insert into corrections.prices (product, valid_from, valid_to, price, _op, _backfill)
       values ($1, $2, date '2027-01-01', $3, $4, $5)`,
      [product, from, amount, amount === null ? 'retract' : 'upsert', backfill],
    );
  const setAside = () =>
    store(
      `select target, sqlstate, reason from emend.dead_letter_open order by target, log_row ->> 'product', log_row ->> 'id'`,
    );
  const backfillOf = async (rows: () => Promise<unknown>) => {
    await source(`select corrections.open_backfill($1, '{prices}', 'a test', 'v1')`, [name]);
    await rows();
    await source(`select corrections.seal_backfill($1)`, [name]);
  };
  const reaches = (state: string, problem: RegExp | null) =>
    eventually(async () => {
      const [row] = await store(`select state, problem from emend.backfill where name = $1`, [name]);
      expect(row).toMatchObject({ state });
      if (problem === null) expect(row.problem).toBeNull();
      else expect(row.problem).toMatch(problem);
    });
  const refusal = /of \d+ changes to "public"\."prices" were not made as stated/;

  it('that keeps rows out in silence has them set aside, and no others', async () => {
    await source(`insert into corrections.orders (id, amount) values ('T1', 1), ('T2', 1)`);
    await source(`insert into corrections.states (id, since, state) values ('T1', '2026-01-01', 'a')`);
    await price('T1', '2026-01-01', 1);
    await install.wait();
    await withTrigger('before insert or update on public.orders', 'keeps_out', async () => {
      await source(`insert into corrections.orders (id, amount) values ('A', 1), ('T1', 2), ('B', 1), ('T3', 1)`);
      await install.wait();
    }, `new.id ^@ 'T'`); // prettier-ignore
    await withTrigger('before delete on public.orders', 'keeps_out', async () => {
      await source(`insert into corrections.orders (id, _op) values ('T2', 'retract'), ('B', 'retract')`);
      await install.wait();
    }, `old.id ^@ 'T'`); // prettier-ignore
    await withTrigger('before insert on public.prices', 'keeps_out', async () => {
      await source(`insert into corrections.prices (product, valid_from, price) values ('T1', '2026-06-01', 2), ('A', '2026-06-01', 2)`);
      await install.wait();
    }, `new.product ^@ 'T'`); // prettier-ignore
    await withTrigger('before update on public.prices', 'keeps_out', async () => {
      await source(`insert into corrections.prices (product, valid_from, price) values ('T1', '2026-06-01', 3), ('B', '2026-06-01', 3)`);
      await install.wait();
    }, `new.product ^@ 'T'`); // prettier-ignore
    await withTrigger('before delete on public.prices', 'keeps_out', async () => {
      await source(`insert into corrections.prices (product, valid_from, price) values ('T1', '2026-01-01', 4), ('B', '2026-01-01', 4)`);
      await install.wait();
    }, `old.product ^@ 'T'`); // prettier-ignore
    await withTrigger('before update on public.states', 'keeps_out', async () => {
      await source(`insert into corrections.states (id, since, state) values ('T1', '2026-06-01', 'b'), ('A', '2026-06-01', 'b')`);
      await install.wait();
    }, `old.id ^@ 'T'`); // prettier-ignore

    const [reason, sqlstate] = [expect.stringMatching(/^1 of . changes to .* not made as stated/), 'EM005'];
    expect(await setAside()).toEqual([
      { target: 'orders', sqlstate, reason },
      { target: 'orders', sqlstate, reason },
      { target: 'orders', sqlstate, reason },
      ...Array.from({ length: 3 }, () => ({
        target: 'prices',
        sqlstate,
        reason: expect.stringMatching(/^. of . changes to .* not made as stated/),
      })),
      { target: 'states', sqlstate, reason },
    ]);
    expect(await store(`select id, amount from public.orders order by id`)).toEqual([
      { id: 'A', amount: '1' },
      { id: 'T1', amount: '1' },
      { id: 'T2', amount: '1' },
    ]);
    expect(await store(`select product, price from public.prices order by product`)).toEqual([
      { product: 'A', price: '2' },
      { product: 'B', price: '4' },
      { product: 'T1', price: '1' },
    ]);
    expect(await store(`select id, state from public.states order by id`)).toEqual([
      { id: 'A', state: 'b' },
      { id: 'T1', state: 'a' },
    ]);
  });

  it.each([
    ['keeps rows out', 'before insert on public.prices', 'keeps_out'],
    ['changes values', 'before insert on public.prices', 'rounds'],
    ['changes periods', 'before insert on public.prices', 'shifts'],
  ])('that %s fails the check of the merge, and promoted without it all is as stated', async (...of) => {
    const [, when, what] = of;
    await withTrigger(when, what, async () => {
      await backfillOf(() => price(name, '2026-01-01', 1.4, name));
      await reaches('checked', /merge/);
      expect(await store(`select figure from emend.backfill_check where backfill = $1 and name = 'merge'`, [name])).toEqual([
        { figure: expect.stringMatching(refusal) },
      ]);
      await source(`select corrections.promote_backfill($1, 'a test', '{"merge": "a try"}')`, [name]);
      await reaches('checked', /not made as stated/);
      expect(await store(`select from public.prices where product = $1`, [name])).toEqual([]);
    }); // prettier-ignore
    await source(`select corrections.promote_backfill($1, 'a test', '{"merge": "it is gone"}')`, [name]);
    await reaches('promoted', null);
    expect(await store(`select price, valid_to from public.prices where product = $1`, [name])).toEqual([
      { price: '1.4', valid_to: '2027-01-01' },
    ]);
  });

  it('of a partition changes values: the check of the merge fails too', async () => {
    await withTrigger('before insert on public.sales_0', 'rounds', async () => {
      await source(`select corrections.open_backfill($1, '{sales}', 'a test', 'v1')`, [name]);
      await source(`insert into corrections.sales (id, price, _backfill) values ('A', 1, $1), ('B', 1.4, $1)`, [name]);
      await source(`select corrections.seal_backfill($1)`, [name]);
      await reaches('checked', /merge/);
      expect(await store(`select figure from emend.backfill_check where backfill = $1 and name = 'merge'`, [name])).toEqual([
        { figure: expect.stringMatching(/^1 of 2 changes to "public"\."sales" were not made as stated/) },
      ]);
    }); // prettier-ignore
  });

  it('that looks and changes nothing is no hindrance', async () => {
    await withTrigger('before insert or update on public.prices', 'looks', async () => {
      await backfillOf(() => price(name, '2026-01-01', 1.4, name));
      await source(`select corrections.promote_backfill($1, 'a test')`, [name]);
      await reaches('promoted', null);
    });
  });

  it('that keeps rows from being deleted holds a revert up, which says so and ends by itself when it is gone', async () => {
    await backfillOf(() => price(name, '2026-01-01', 1, name));
    await source(`select corrections.promote_backfill($1, 'a test')`, [name]);
    await reaches('promoted', null);
    await withTrigger('before delete on public.prices', 'keeps_out', async () => {
      await source(`select corrections.revert_backfill($1, 'a test')`, [name]);
      await reaches('promoted', refusal);
      expect(await store(`select price from public.prices where product = $1`, [name])).toEqual([{ price: '1' }]);
    }); // prettier-ignore
    await reaches('reverted', null);
    expect(await store(`select from public.prices where product = $1`, [name])).toEqual([]);
  });

  it('or a hand that lets pieces overlap is found by the check of overlaps', async () => {
    const client: PoolClient = await install.store.connect();
    try {
      await client.query('begin');
      await client.query(
        `insert into public.prices (product, valid_from, valid_to, price, _version, _known_from, _backfill)
         select 'O', f, t, 1, row_number() over (), now(), b
         from (values (date '2026-01-01', date '2026-02-05', null), ('2026-02-01', '2026-03-05', $1), ('2026-03-01', '2026-04-05', $1),
           ('2026-04-01', '2026-05-01', null), ('2026-05-01', '2026-06-01', $1), ('2026-06-01', '2026-07-01', null)) as p (f, t, b)`,
        [name],
      );
      const findings = await checkResult(
        client,
        { name, checks: {} } as Backfill,
        install.targets.slice(0, 1),
      );
      expect(findings[0]).toMatchObject({ name: 'overlaps', figure: '3', verdict: 'fail' });
    } finally {
      client.release(true);
    }
  });
});
