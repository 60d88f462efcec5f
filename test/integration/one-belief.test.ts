import { expect, it } from 'vitest';
import { facts, timeline } from '../../src/config/define-config.ts';
import { eventually } from '../support/eventually.ts';
import { announceK0, takeK, takenK } from '../../src/store/clock.ts';
import { createInstall } from '../support/install.ts';

const ddl = `
  create table public.orders (id integer primary key, amount integer not null);
  create table public.parcels (id integer primary key, weight integer not null);
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price integer not null)`;
const targets = {
  orders: facts('public.orders', { key: ['id'] }),
  parcels: facts('public.parcels', { key: ['id'] }),
  prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
};

it('a transaction into several targets is told at one time: no question finds it in one of them and not in the others', async () => {
  const { source, store, ...install } = await createInstall('one belief', { ddl, targets });
  await install.start();
  const written = 300;
  for (let value = 1; value <= written; value += 1) {
    await source.query(
      `with o as (insert into corrections.orders (id, amount) values (1, ${value})),
         p as (insert into corrections.parcels (id, weight) values (1, ${value}))
       insert into corrections.prices (product, valid_from, price) values ('a', '2026-01-01', ${value})`,
    );
  }
  await install.wait();
  const { rows: told } = await store.query<{ written: string; times: string }>(
    `select count(*) as written, count(*) filter (where t.times > 1) as times
     from (
       select l._recorded_at, count(distinct l.told_at) as times, count(distinct l.target) as targets
       from emend.ledger l
       group by l._recorded_at
     ) as t
     where t.targets = 3`,
  );
  expect(told).toEqual([{ written: String(written), times: '0' }]);
  await eventually(async () => {
    const { rows } = await store.query(
      `select emend.settled() >= (select max(told_at) from emend.ledger) as settled`,
    );
    expect(rows).toEqual([{ settled: 't' }]);
  });
  // at each time at which anything was told, and right before it
  const { rows: torn } = await store.query(
    `select at.k
     from (
       select told_at as k from emend.ledger union select told_at - interval '1 microsecond' from emend.ledger
     ) as at
     cross join lateral (
       select (select amount from emend.orders_as_of(at.k)) as o, (select weight from emend.parcels_as_of(at.k)) as p,
         (select price from emend.prices_as_of(at.k)) as v
     ) as answers
     where (o, p) is distinct from (p, v)`,
  );
  expect(torn).toEqual([]);
});

it('there is no time of belief outside of a transaction: statements that were sent behind a begin that failed write nothing', async () => {
  const { store } = await createInstall('no belief', { ddl, targets });
  const client = await store.connect();
  // in one, as ever: the settings are those of the session from then on, and empty
  await client.query('begin');
  await announceK0(client);
  await takeK(client);
  await client.query(`select ${takenK}`);
  await client.query('commit');

  await announceK0(client);
  await expect(takeK(client)).rejects.toMatchObject({ code: '22007' });
  await expect(client.query(`select ${takenK}`)).rejects.toMatchObject({ code: '22007' });
  client.release();
});
