import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    orders: facts('public.orders', { key: ['id'], allow: ['orders_email'] }),
    payments: facts('public.payments', { key: ['id'] }),
    customers: facts('public.customers', { key: ['id'] }),
  },
});

describe('a bad row stops only itself', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('dead letter', {
      ddl: `
        create table public.customers (id integer primary key);
        create table public.orders (id integer primary key, amount numeric, email text, customer integer references public.customers, doc jsonb);
        create unique index orders_email on public.orders (email);
        create table public.payments (id integer primary key, amount numeric(4, 2));
        create function public.refuse_666() returns trigger language plpgsql as
          $$ begin
            if new.amount = -666 then raise exception 'not this amount'; end if;
            if new.amount = -667 then raise exception using errcode = 'SHOP1'; end if;
            if new.amount = -668 then assert new.email is not null; end if;
            return new;
          end $$;
        create trigger refuse before insert or update on public.orders for each row execute function public.refuse_666();`,
      targets,
    });
    // what the store refuses and the log does not know of
    await install.store.query(`alter table public.orders add constraint small check (amount < 1000000)`);
    await install.source.query(`alter table corrections.payments alter column amount type numeric`);
    await install.start();
  });

  const deadLetters = async () =>
    (
      await install.store.query<{ target: string; sqlstate: string; id: string }>(
        `select target, sqlstate, log_row ->> 'id' as id from emend.dead_letter order by _id`,
      )
    ).rows;

  it('each kind of bad row is set aside alone, while the 10,000 around them are merged', async () => {
    await install.source.query(`
      insert into corrections.orders (id, amount, email, customer, doc)
      select n, case n when 100 then 2000000 when 300 then -666 when 301 then -667 when 302 then -668 else n end,
        case when n in (500, 501) then 'same@example.org'
          -- more than fits into the unique index
          when n = 600 then (select string_agg(md5(i::text), '') from generate_series(1, 200) i) end, case n when 700 then 7 end,
        case when n % 2 = 0 then jsonb_build_object('n', n) end
      from generate_series(1, 5000) n`);
    await install.source.query(
      `insert into corrections.payments select n, case n when 42 then 12345 else 1 end from generate_series(1, 5000) n`,
    );
    await install.wait();
    expect(await deadLetters()).toEqual([
      { target: 'orders', sqlstate: '23514', id: '100' },
      { target: 'orders', sqlstate: 'P0001', id: '300' },
      { target: 'orders', sqlstate: 'SHOP1', id: '301' },
      { target: 'orders', sqlstate: 'P0004', id: '302' },
      { target: 'orders', sqlstate: '23505', id: '501' },
      { target: 'orders', sqlstate: '54000', id: '600' },
      { target: 'orders', sqlstate: '23503', id: '700' },
      { target: 'payments', sqlstate: '22003', id: '42' },
    ]);
    const { rows } = await install.store.query(
      `select (select count(*) from public.orders) as orders, (select count(*) from public.payments) as payments`,
    );
    expect(rows[0]).toEqual({ orders: '4993', payments: '4999' });
  });

  it('a row whose foreign key is met later in its transaction, or soon after, is not set aside', async () => {
    const before = await deadLetters();
    // orders come before customers in the order of locks, and so of merges
    await install.source.query(`
      begin;
      insert into corrections.orders (id, customer) select n, 1 from generate_series(7001, 7100) n;
      insert into corrections.customers values (1);
      commit;
      insert into corrections.orders (id, customer) values (7200, 2);`);
    const arrived = async (count: string) => {
      const { rows } = await install.store.query<{ count: string }>(
        `select count(*) from public.orders where id between 7001 and 7200`,
      );
      expect(rows[0]!.count).toBe(count);
    };
    await eventually(() => arrived('100'));
    await install.source.query(`insert into corrections.customers values (2)`);
    await eventually(() => arrived('101'));
    expect(await deadLetters()).toEqual(before);
  });

  it('a table that is missing a column is not the row’s fault: nothing is set aside, and the row comes once it is back', async () => {
    const before = await deadLetters();
    await install.store.query(`alter table public.payments rename column amount to sum`);
    await install.source.query(`insert into corrections.payments values (6000, 1)`);
    const merged = () => install.store.query(`select from public.payments where id = 6000`);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect([(await merged()).rowCount, await deadLetters()]).toEqual([0, before]);
    await install.store.query(`alter table public.payments rename column sum to amount`);
    await install.wait();
    expect((await merged()).rowCount).toBe(1);
  });
});
