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
    homes: timeline('homes', { key: ['person'], period: ['valid_from'] }),
    ranks: timeline('ranks', { key: ['person'], period: ['valid_from'], version: 'ver' }),
    stays: timeline('stays', {
      key: ['person'],
      period: ['first_day', 'last_day'],
      mode: 'until_next',
      openEnd: '9999-12-31',
      closed: true,
    }),
  },
});

describe('only the price, keep the rest', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('correct columns', {
      ddl: `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric, note text);
        create table public.orders (id integer primary key, amount numeric, note text);
        create table public.homes (person text not null, valid_from date not null, valid_to date not null, city text, phone text);
        create table public.ranks (person text not null, valid_from date not null, valid_to date not null, title text, ver integer not null);
        create table public.stays (person text not null, first_day date not null, last_day date not null, city text, phone text)`,
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

  it('refuses an empty period, one that is no period, and an empty set', async () => {
    const call = (correction: { from?: string; to?: string; set?: Record<string, unknown> }) =>
      correctColumns(install.config, install.source, targets.prices, {
        key: { product: 'A' },
        set: { price: 1 },
        ...correction,
      });
    const empty = {
      code: 'bad_arguments',
      message: expect.stringContaining('from is not before to') as string,
    };
    await expect(call({ from: '2020-02-01', to: '2020-02-01' })).rejects.toMatchObject(empty);
    await expect(call({ from: '2020-02-02', to: '2020-02-01' })).rejects.toMatchObject(empty);
    await expect(call({ from: '2020-02-02', to: 'never' })).rejects.toMatchObject({ code: 'bad_arguments' });
    await expect(call({ set: {} })).rejects.toMatchObject({
      code: 'bad_arguments',
      message: 'set names no column, so nothing would be corrected',
    });
  });

  describe('where each start holds until the next, only what is between from and to changes', () => {
    // a move away in May, back in June; a start of April was withdrawn
    const tell = async (person: string) => {
      await install.source.query(
        `insert into corrections.homes (person, valid_from, city, phone, _op)
         values ($1, '2026-01-01', 'X', '1', 'upsert'), ($1, '2026-03-01', 'Y', '2', 'upsert'),
           ($1, '2026-04-01', null, null, 'withdraw'), ($1, '2026-05-01', null, null, 'retract'),
           ($1, '2026-06-01', 'V', '3', 'upsert')`,
        [person],
      );
      await install.wait();
    };
    const daily = async (person: string) => {
      const { rows } = await install.store.query<{ day: string; lives: string | null }>(
        `select d.day::date::text as day, h.city || h.phone as lives
         from generate_series('2025-12-25'::timestamp, '2026-07-05', '1 day') as d (day)
         left join lateral (select * from emend.homes_at(d.day::date) h where h.person = $1) h on true
         order by d.day`,
        [person],
      );
      return rows;
    };

    it.each<[what: string, from: string | undefined, to: string | undefined, starts: number]>([
      ['over a start, to between two', '2026-02-01', '2026-03-15', 3],
      ['to an existing start', '2026-02-01', '2026-03-01', 1],
      ['to a start that was withdrawn', '2026-02-01', '2026-04-01', 3],
      ['into a time when nothing is there', '2026-04-15', '2026-05-15', 1],
      ['from before the first start', '2025-12-28', '2026-01-15', 2],
      ['behind the last start', '2026-06-10', '2026-07-01', 2],
      ['over everything', undefined, undefined, 3],
      ['over a hole, to behind the last start', '2026-04-15', '2026-06-15', 3],
      ['from a start to the end of time', '2026-03-01', 'infinity', 2],
    ])('%s', async (what, from, to, starts) => {
      await tell(what);
      const before = await daily(what);
      const ids = await correctColumns(install.config, install.source, targets.homes, {
        key: { person: what },
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
        set: { city: 'Z' },
      });
      await install.wait();
      const isWithin = (day: string) => (from ?? '0') <= day && (to === 'infinity' || day < (to ?? '9'));
      expect(await daily(what)).toEqual(
        before.map(({ day, lives }) => ({
          day,
          lives: lives !== null && isWithin(day) ? `Z${lives.slice(1)}` : lives,
        })),
      );
      expect(ids).toHaveLength(starts);
    });

    it('and where a start was withdrawn under a higher version, it is refused, not lost in silence', async () => {
      await install.source.query(
        `insert into corrections.ranks (person, valid_from, title, ver, _op)
         values ('v', '2026-01-01', 'X', 3, 'upsert'), ('v', '2026-04-01', null, 5, 'withdraw')`,
      );
      await install.wait();
      const call = (from: string, to: string, set: Record<string, unknown>) =>
        correctColumns(install.config, install.source, targets.ranks, {
          key: { person: 'v' },
          from,
          to,
          set,
        });
      const refused = {
        code: 'correction_invalid',
        message: expect.stringContaining('a start at 2026-04-01 was withdrawn with ver 5') as string,
      };
      await expect(call('2026-04-01', '2026-05-01', { title: 'Z' })).rejects.toMatchObject(refused);
      // the row that gives back what stood would lose there
      await expect(call('2026-02-01', '2026-04-01', { title: 'Z', ver: 9 })).rejects.toMatchObject(refused);
      await call('2026-04-01', '2026-05-01', { title: 'Z', ver: 6 });
      await install.wait();
      const { rows } = await install.store.query(`select valid_from, title from public.ranks order by 1`);
      expect(rows).toEqual([
        { valid_from: '2026-01-01', title: 'X' },
        { valid_from: '2026-04-01', title: 'Z' },
        { valid_from: '2026-05-01', title: 'X' },
      ]);
    });

    it('and an end in the form of the table, the last day', async () => {
      await install.source.query(
        `insert into corrections.stays (person, first_day, city, phone) values ('u', '2026-01-01', 'X', '1'), ('u', '2026-03-01', 'Y', '2')`,
      );
      await install.wait();
      await correctColumns(install.config, install.source, targets.stays, {
        key: { person: 'u' },
        from: '2026-03-14',
        to: '2026-03-14',
        set: { city: 'Z' },
      });
      await install.wait();
      const { rows } = await install.store.query(`select * from emend.stays_periods order by first_day`);
      expect(rows).toEqual([
        { person: 'u', first_day: '2026-01-01', last_day: '2026-02-28', city: 'X', phone: '1' },
        { person: 'u', first_day: '2026-03-01', last_day: '2026-03-13', city: 'Y', phone: '2' },
        { person: 'u', first_day: '2026-03-14', last_day: '2026-03-14', city: 'Z', phone: '2' },
        { person: 'u', first_day: '2026-03-15', last_day: '9999-12-31', city: 'Y', phone: '2' },
      ]);
    });
  });
});
