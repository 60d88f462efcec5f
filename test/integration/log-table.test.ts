import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import type { DatabaseError } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { beforeAll, describe, expect, test } from 'vitest';
import { withClient, withTransaction } from '../../src/db/transaction.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { createSource } from '../support/source.ts';
import type { Declaration, SourceUnderTest } from '../support/source.ts';

const ddl = `
  create schema shop;
  create type shop.mood as enum ('glad', 'it''s "fine"');
  create domain shop.amount as numeric(38, 2) not null check (value >= 0);
  create type shop.pair as (a integer, b text);
  create type shop.span as range (subtype = numeric);
  create table public.prices (
    product_id text not null,
    valid_from timestamptz not null,
    valid_to timestamptz not null,
    price numeric not null,
    currency text not null default 'EUR',
    note text,
    constraint price_is_not_negative check (price >= 0),
    constraint note_fits check (note is null or price < 1000000)
  );
  create table public.rates (id integer not null, start_on date not null, end_on date not null, rate float8 not null);
  create table public.slots (id integer not null, lo integer not null, hi integer not null, who text);
  create table public.days (id integer not null, first_day date not null, last_day date, who text not null);
  create table public.terms (id integer not null, since date not null, until date not null);
  create table public.last_days (id integer not null, first_day date not null, last_day date not null);
  create table public.moves (id integer not null, since date not null, until date not null);
  create table public.counts (id integer not null, lo integer not null, hi integer not null);
  create table public.big_counts (id integer not null, lo bigint not null, hi bigint not null);
  create table public.pages (id integer not null, lo integer not null, hi integer not null);
  create table public.readings (
    sensor text not null,
    at timestamptz not null default now(),
    version numeric not null,
    mood shop.mood not null default 'glad',
    moods shop.mood[],
    amount shop.amount,
    pair shop.pair not null,
    span shop.span,
    doc jsonb,
    raw bytea
  );
`;

const declarations: Declaration[] = [
  {
    name: 'prices',
    kind: 'timeline',
    key: ['product_id'],
    period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
  },
  {
    name: 'rates',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'start_on', to: 'end_on', mode: 'until_next' },
  },
  { name: 'slots', kind: 'timeline', key: ['id'], period: { from: 'lo', to: 'hi', mode: 'override' } },
  {
    name: 'days',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'first_day', to: 'last_day', mode: 'override', openEnd: null, closed: true },
  },
  {
    name: 'terms',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'since', to: 'until', mode: 'override', openEnd: '9999-12-31' },
  },
  {
    name: 'last_days',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'first_day', to: 'last_day', mode: 'override', openEnd: '9999-12-31', closed: true },
  },
  {
    name: 'moves',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'since', to: 'until', mode: 'until_next', openEnd: '9999-12-31' },
  },
  {
    name: 'counts',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'lo', to: 'hi', mode: 'override', closed: true },
  },
  {
    name: 'big_counts',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'lo', to: 'hi', mode: 'override', closed: true },
  },
  {
    name: 'pages',
    kind: 'timeline',
    key: ['id'],
    period: { from: 'lo', to: 'hi', mode: 'override', openEnd: '-1', closed: true },
  },
  { name: 'readings', kind: 'facts', key: ['sensor', 'at'], eventTime: 'at', version: 'version' },
];

describe.each([
  ['two databases', {}],
  ['one database', { sameDatabase: true }],
])('a value log, source and store in %s', (_, options) => {
  let db: SourceUnderTest;
  beforeAll(async () => {
    db = await createSource(await createDatabases('log table', options), ddl, declarations);
    return async () => {
      await db.source.end();
      await db.store.end();
    };
  });

  async function refusal(sql: string): Promise<string> {
    const error = await db.source.query(sql).then(
      () => null,
      (caught: unknown) => caught as DatabaseError,
    );
    return error ? `${error.message}${error.hint === undefined ? '' : ` | ${error.hint}`}` : 'not refused';
  }

  test.each([
    [
      `prices (product_id, valid_from, price) values (null, '2026-01-01', 1)`,
      'null value in column "product_id"',
    ],
    [`prices (product_id, price) values ('A', 1)`, 'null value in column "valid_from"'],
    [`prices (product_id, valid_from, price) values ('A', null, 1)`, 'null value in column "valid_from"'],
    [
      `prices (product_id, valid_from, valid_to, price) values ('A', '2026-01-02', '2026-01-01', 1)`,
      '"valid_from must be before valid_to"',
    ],
    [
      `prices (product_id, valid_from, valid_to, price) values ('A', '2026-01-02', '2026-01-02', 1)`,
      '"valid_from must be before valid_to"',
    ],
    [
      `prices (product_id, valid_from, valid_to, price) values ('A', 'infinity', 'infinity', 1)`,
      '"valid_from must be before valid_to"',
    ],
    [
      `prices (product_id, valid_from, price) values ('A', 'infinity', 1)`,
      '"valid_from must be before valid_to"',
    ],
    [
      `prices (product_id, valid_from, valid_to, price) values ('A', '2026-01-02', '-infinity', 1)`,
      '"valid_from must be before valid_to"',
    ],
    [`prices (product_id, valid_from) values ('A', '2026-01-01')`, '"an upsert needs price"'],
    [
      `prices (product_id, valid_from, price, currency) values ('A', '2026-01-01', 1, null)`,
      '"an upsert needs currency"',
    ],
    [`prices (product_id, valid_from, price) values ('A', '2026-01-01', -1)`, '"price_is_not_negative"'],
    [`prices (product_id, valid_from, price, note) values ('A', '2026-01-01', 1e9, 'x')`, '"note_fits"'],
    [
      `prices (product_id, valid_from, _op, note) values ('A', '2026-01-01', 'retract', 'x')`,
      '"only an upsert has values"',
    ],
    [
      `prices (product_id, valid_from, _op, price) values ('A', '2026-01-01', 'retract', 1)`,
      '"only an upsert has values"',
    ],
    [
      `prices (product_id, valid_from, _op) values ('A', '2026-01-01', 'withdraw')`,
      '"_op is upsert or retract"',
    ],
    [
      `prices (product_id, valid_from, _op) values ('A', '2026-01-01', 'update')`,
      '"_op is upsert or retract"',
    ],
    [
      `prices (product_id, valid_from, price) values ('A', 'yesterday at noon', 1)`,
      'invalid input syntax for type timestamp',
    ],
    [`rates (id, start_on, rate) values (1, 'infinity', 1)`, '"start_on must be before the end of time"'],
    [
      `rates (id, start_on, end_on, rate) values (1, '2026-01-01', '2026-01-02', 1)`,
      'column "end_on" of relation "rates" does not exist',
    ],
    [`slots (id, lo, hi) values (1, 5, 5)`, '"lo must be before hi"'],
    [`slots (id, lo) values (1, 2147483647)`, '"lo must be before hi"'],
    [
      `days (id, first_day, last_day, who) values (1, '2026-01-02', '2026-01-01', 'x')`,
      '"first_day must not be after last_day"',
    ],
    [`days (id, first_day, who) values (1, 'infinity', 'x')`, '"first_day must not be after last_day"'],
    [
      `terms (id, since, until) values (1, '9999-12-31', '9999-12-31')`,
      '"since must be before the open end 9999-12-31"',
    ],
    [`terms (id, since) values (1, '9999-12-31')`, '"since must be before the open end 9999-12-31"'],
    [
      `terms (id, since, _op) values (1, '10000-01-01', 'retract')`,
      '"since must be before the open end 9999-12-31"',
    ],
    [
      `terms (id, since, until) values (1, '2026-01-01', '10000-01-01')`,
      '"until must be the open end 9999-12-31, or end before it"',
    ],
    [
      `last_days (id, first_day) values (1, '9999-12-31')`,
      '"first_day must be before the open end 9999-12-31"',
    ],
    [
      `last_days (id, first_day, last_day) values (1, '2026-01-01', '9999-12-30')`,
      '"last_day must be the open end 9999-12-31, or end before it"',
    ],
    [`moves (id, since) values (1, '9999-12-31')`, '"since must be before the open end 9999-12-31"'],
    [
      `moves (id, since, _op) values (1, '9999-12-31', 'withdraw')`,
      '"since must be before the open end 9999-12-31"',
    ],
    [`counts (id, lo, hi) values (1, 1, 2147483646)`, '"hi must be before 2147483646, or open"'],
    [
      `big_counts (id, lo, hi) values (1, 1, 9223372036854775806)`,
      '"hi must be before 9223372036854775806, or open"',
    ],
    [`pages (id, lo) values (1, -1)`, '"lo must be after the open end -1"'],
    [`pages (id, lo, hi) values (1, 1, 2147483646)`, '"hi must be before 2147483646, or open"'],
    [`readings (sensor, version, pair, amount) values ('s', 1, '(,)', 1)`, 'null value in column "at"'],
    [
      `readings (sensor, at, pair, amount) values ('s', '2026-01-01', '(,)', 1)`,
      'null value in column "version"',
    ],
    [`readings (sensor, at, _op) values ('s', '2026-01-01', 'retract')`, 'null value in column "version"'],
    [
      `readings (sensor, at, version, _op) values ('s', '2026-01-01', 'NaN', 'retract')`,
      '"version must be a number"',
    ],
    [
      `readings (sensor, at, version, pair, amount) values ('s', '2026-01-01', 1, '(,)', -1)`,
      'value for domain shop.amount violates check',
    ],
    [`readings (sensor, at, version, pair) values ('s', '2026-01-01', 1, '(,)')`, '"an upsert needs amount"'],
    [`readings (sensor, at, version, amount) values ('s', '2026-01-01', 1, 1)`, '"an upsert needs pair"'],
    [
      `readings (sensor, at, version, pair, amount, mood) values ('s', '2026-01-01', 1, '(,)', 1, 'sad')`,
      'invalid input value for enum shop.mood',
    ],
    [
      `prices (product_id, valid_from, price, _backfill) values ('A', '2026-01-01', 1, 'nope')`,
      'there is no backfill "nope"',
    ],
  ])('refuses: insert into %s', async (insert, message) => {
    expect(await refusal(`insert into corrections.${insert}`)).toContain(message);
  });

  test.each([
    [`prices (product_id, valid_from, valid_to, price) values ('A', '-infinity', 'infinity', 1)`],
    [`terms (id, since, until) values (1, '-infinity', '9999-12-30'), (1, '9999-12-30', '9999-12-31')`],
    [`terms (id, since, until) values (1, '2026-01-01', 'infinity'), (1, '2026-01-01', null)`],
    [
      `last_days (id, first_day, last_day) values (1, '2026-01-01', '9999-12-29'), (1, '9999-12-30', '9999-12-31')`,
    ],
    [`moves (id, since) values (1, '9999-12-30')`],
    [`counts (id, lo, hi) values (1, 1, 2147483645), (1, 1, 2147483647), (1, 1, null)`],
    [`big_counts (id, lo, hi) values (1, 1, 9223372036854775805), (1, 1, 9223372036854775807)`],
    [`pages (id, lo, hi) values (1, 0, -1), (1, 0, 0), (1, 7, null)`],
    [`prices (product_id, valid_from, price) values ('A', '2026-01-01', 1)`],
    [`prices (product_id, valid_from, valid_to, _op) values ('A', '2026-01-01', null, 'retract')`],
    [`rates (id, start_on, _op) values (1, '-infinity', 'withdraw')`],
    [`rates (id, start_on, rate) values (1, '2026-01-01', 'NaN')`],
    [`slots (id, lo, hi) values (1, -2147483648, 2147483647)`],
    [`days (id, first_day, last_day, who) values (1, '2026-01-01', '2026-01-01', 'one day')`],
    [`readings (sensor, at, version, _op) values ('s', '2026-01-01', 1, 'retract')`],
    [`readings (sensor, at, version, pair, amount) values ('s', '2026-01-01', 1, '(,)', 1)`],
  ])('takes: insert into %s', async (insert) => {
    expect(await refusal(`insert into corrections.${insert}`)).toBe('not refused');
  });

  test.each([
    'update corrections.prices set price = 1',
    'delete from corrections.prices',
    'truncate corrections.prices',
    'delete from corrections._request',
  ])('never changes a row: %s', async (sql) => {
    expect(await refusal(sql)).toMatch(
      /is append-only: (update|delete|truncate) is refused \| Insert another row/,
    );
  });

  test('defaults of the target are those of the log, and no default states a time', async () => {
    const { rows } = await db.source.query<Record<string, string>>(
      `insert into corrections.prices (product_id, valid_from, price) values ('D', '2026-01-01', 1)
       returning currency, valid_to, _op, _actor = current_user as mine, _xid = pg_current_xact_id() as here`,
    );
    expect(rows).toEqual([{ currency: 'EUR', valid_to: null, _op: 'upsert', mine: 't', here: 't' }]);
  });

  test('values go in unchanged: microseconds, infinity, 40 digits, NaN, BC, jsonb, arrays, bytes', async () => {
    const values = {
      at: '0044-03-15 12:00:00.123456+00 BC',
      version: '1234567890123456789012345678901234567890.5',
      moods: `{glad,NULL,"it's \\"fine\\""}`,
      amount: '99999999999999999999999999999.99',
      pair: '(1,)',
      span: '[1.0000000000000000001,)',
      doc: '{"n": 12345678901234567890.123}',
      raw: '\\x00ff',
    };
    const names = Object.keys(values);
    const { rows } = await db.source.query(
      `insert into corrections.readings (sensor, ${names.join(', ')})
       values ('v', ${names.map((_name, index) => `$${index + 1}`).join(', ')}) returning ${names.join(', ')}`,
      Object.values(values),
    );
    expect(rows).toEqual([values]);
  });

  test('ids rise over all logs, also with insert … select and copy', async () => {
    await withClient(db.source, async (client) => {
      await client.query(
        `insert into corrections.prices (product_id, valid_from, price) select 'S' || n, '2026-01-01', n from generate_series(1, 10) as n`,
      );
      const copy = client.query(copyFrom('copy corrections.slots (id, lo, hi, who) from stdin'));
      await pipeline(Readable.from(['70\t1\t2\t\\N\n', '71\t1\t\\N\tx\n']), copy);
    });
    const { rows } = await db.source.query<{ after: string }>(
      `select (min(s._id) > max(p._id))::text as after from corrections.slots s, corrections.prices p where s.id >= 70`,
    );
    expect(rows[0]?.after).toBe('true');
  });

  test('a row that waits for a backfill to be sealed is refused, and never slips in behind the count', async () => {
    await db.source.query(`insert into corrections._backfill (name, targets) values ('b1', '{slots}')`);
    const insert = `insert into corrections.slots (id, lo, hi, _backfill) values (1, 1, 2, 'b1')`;
    await db.source.query(insert);
    for (const isolation of ['read committed', 'repeatable read']) {
      await withClient(db.source, async (loader) => {
        await loader.query(`begin isolation level ${isolation}`);
        await loader.query('select 1');
        const late = await withTransaction(db.source, async (sealer) => {
          await sealer.query(`select from corrections._backfill where name = 'b1' for update`);
          const waiting = loader.query(insert).then(
            () => 'slipped in',
            (error: DatabaseError) => error.message,
          );
          await eventually(async () => {
            const { rows } = await sealer.query(`select from pg_locks where not granted`);
            expect(rows.length).toBeGreaterThan(0);
          });
          await sealer.query(`update corrections._backfill set closed_at = now() where name = 'b1'`);
          return { waiting };
        });
        expect(await late.waiting).toMatch(/was closed at|could not serialize/);
        await loader.query('rollback');
      });
      await db.source.query(`update corrections._backfill set closed_at = null where name = 'b1'`);
    }
    await db.source.query(
      `insert into corrections._request (backfill, request) values ('b1', 'chunk'), ('b1', 'seal')`,
    );
    const { rows } = await db.source.query(`select name, state from corrections._backfill_state`);
    expect(rows).toEqual([{ name: 'b1', state: 'sealed' }]);
  });
});
