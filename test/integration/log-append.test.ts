import { drizzle } from 'drizzle-orm/node-postgres';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import {
  bigint,
  customType,
  date,
  doublePrecision,
  integer,
  jsonb,
  numeric,
  pgTable,
  text,
  timestamp,
  varchar,
} from 'drizzle-orm/pg-core';
import { sql } from 'drizzle-orm';
import pg from 'pg';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { correct, retract, withdraw } from '../../src/log/append.ts';
import { insertStatements } from '../../src/log/append-statement.ts';
import { createDatabases } from '../support/databases.ts';
import { createSource } from '../support/source.ts';
import type { SourceUnderTest } from '../support/source.ts';

const ddl = `
  create table public.prices (
    product_id text not null, valid_from timestamptz not null, valid_to timestamptz not null,
    price numeric not null, note text default 'none', source_system text
  );
  create table public.things (
    id bigint not null, code varchar(3), f float8, n numeric(50, 10), doc jsonb, tags text[], matrix integer[],
    raw bytea, day date, seen_at timestamp, flag boolean
  );
  create table public.addresses (person integer not null, since date not null, until_day date not null, city text not null);
`;

const pricesTable = pgTable('prices', {
  productId: text('product_id').notNull(),
  validFrom: timestamp('valid_from', { withTimezone: true }).notNull(),
  validTo: timestamp('valid_to', { withTimezone: true }).notNull(),
  price: numeric('price').notNull(),
  note: text('note').default('none'),
  sourceSystem: text().$defaultFn(() => 'web'),
});
const thingsTable = pgTable('things', {
  id: bigint('id', { mode: 'bigint' }).notNull(),
  code: varchar('code', { length: 3 }),
  f: doublePrecision('f'),
  n: numeric('n', { precision: 50, scale: 10 }),
  doc: jsonb('doc').$type<unknown>(),
  tags: text('tags').array(),
  matrix: integer('matrix').array().array(),
  raw: customType<{ data: Buffer }>({ dataType: () => 'bytea' })('raw'),
  day: date('day', { mode: 'date' }),
  seenAt: timestamp('seen_at'),
});

const config = defineConfig({
  targets: {
    prices: timeline(pricesTable, { key: ['productId'], period: ['validFrom', 'validTo'] }),
    things: facts(thingsTable, { key: ['id'] }),
    addresses: timeline('public.addresses', {
      key: ['person'],
      period: ['since', 'until_day'],
      mode: 'until_next',
    }),
  },
});
const { prices, things, addresses } = config.targets;
/** The same tables by name. */
const byName = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product_id'], period: ['valid_from', 'valid_to'] }),
    things: facts('public.things', { key: ['id'] }),
  },
}).targets;

let db: SourceUnderTest;
let client: pg.Client;
let orm: NodePgDatabase;
beforeAll(async () => {
  const databases = await createDatabases('log append');
  db = await createSource(databases, ddl, [
    {
      name: 'prices',
      kind: 'timeline',
      key: ['product_id'],
      period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
    },
    { name: 'things', kind: 'facts', key: ['id'] },
    {
      name: 'addresses',
      kind: 'timeline',
      key: ['person'],
      period: { from: 'since', to: 'until_day', mode: 'until_next' },
    },
  ]);
  client = new pg.Client({ connectionString: databases.sourceUrl });
  await client.connect();
  // the application's settings are its own
  await client.query(`set search_path = nowhere; set datestyle = 'German'; set timezone = 'Asia/Tokyo'`);
  orm = drizzle({ client });
  return async () => {
    await client.end();
    await db.source.end();
    await db.store.end();
  };
});
let before: string;
beforeEach(async () => {
  before = (
    await db.source.query<{ id: string }>(
      `select coalesce(max(_id), 0) as id from (select _id from corrections.prices union all select _id from corrections.things) as l`,
    )
  ).rows[0]!.id;
});

async function written(table: string, columns: string): Promise<Record<string, string | null>[]> {
  const { rows } = await db.source.query<Record<string, string | null>>(
    `select ${columns} from corrections.${table} where _id > $1 order by _id`,
    [before],
  );
  return rows;
}

describe('correct()', () => {
  test('writes typed rows in the application’s Drizzle transaction, and nothing when it rolls back', async () => {
    const row = {
      productId: 'A',
      price: '5.00',
      validFrom: new Date('2026-09-10T00:00:00Z'),
      validTo: '2026-09-12 00:00:00.123456+00',
    };
    await orm.transaction(async (tx) => {
      const ids = await correct(tx, prices, row, { reason: 'contract 17' });
      expect(ids).toEqual([expect.stringMatching(/^\d+$/)]);
    });
    await expect(
      orm.transaction(async (tx) => {
        await correct(tx, prices, { ...row, productId: 'rolled back' });
        throw new Error('on second thoughts');
      }),
    ).rejects.toThrow('on second thoughts');
    expect(
      await written('prices', 'product_id, price, valid_from, valid_to, note, source_system, _op, _reason'),
    ).toEqual([
      {
        product_id: 'A',
        price: '5.00',
        valid_from: '2026-09-10 00:00:00+00',
        valid_to: '2026-09-12 00:00:00.123456+00',
        note: 'none',
        source_system: 'web',
        _op: 'upsert',
        _reason: 'contract 17',
      },
    ]);
  });

  test('writes with a pg client and a pg pool by column names', async () => {
    const row = { product_id: 'B', price: 5, valid_from: '-infinity' };
    await correct(client, byName.prices, row);
    await correct(db.source, byName.prices, [
      row,
      { ...row, valid_to: null },
      { ...row, valid_to: 'infinity' },
    ]);
    expect(await written('prices', 'product_id, valid_to')).toEqual([
      { product_id: 'B', valid_to: null },
      { product_id: 'B', valid_to: null },
      { product_id: 'B', valid_to: null },
      { product_id: 'B', valid_to: 'infinity' },
    ]);
  });

  test.each([
    ['Drizzle', () => orm],
    ['pg', () => client],
  ])('gives a left-out column its default and null null, row by row, in order (%s)', async (_, executor) => {
    const rows = [{ note: 'x' }, {}, { note: null }, { note: undefined }, { note: '' }].map(
      (part, index) => ({
        product_id: `P${index}`,
        price: '1',
        valid_from: '2026-01-01',
        ...part,
      }),
    );
    const ids = await correct(executor(), byName.prices, rows);
    expect(ids).toEqual([...ids].sort((a, b) => Number(a) - Number(b)));
    expect(await written('prices', 'product_id, note')).toEqual([
      { product_id: 'P0', note: 'x' },
      { product_id: 'P1', note: 'none' },
      { product_id: 'P2', note: null },
      { product_id: 'P3', note: 'none' },
      { product_id: 'P4', note: '' },
    ]);
  });

  test('100,000 rows in one call, in their order, the later ones above the earlier', async () => {
    const rows = Array.from({ length: 100_000 }, (_, n) => ({
      product_id: `key ${n}`,
      valid_from: '2026-01-01',
      price: n,
    }));
    const ids = await correct(client, byName.prices, rows);
    expect(ids).toHaveLength(100_000);
    const found = await written('prices', `count(*) over ()::text as count, product_id, _id`).then((all) =>
      all.at(-1),
    );
    expect(found).toEqual({ count: '100000', product_id: 'key 99999', _id: ids.at(-1) });
    expect(ids.every((id, index) => index === 0 || BigInt(id) > BigInt(ids[index - 1]!))).toBe(true);
  });

  test('cuts what is too large for one statement, and keeps the order', () => {
    const column = { name: 'a', type: 'pg_catalog.text', defaultSql: 'null' };
    const texts = ['aaaa', null, 'b', 'c'.repeat(50), '"\\'];
    const defaulted = [false, true, false, false, false];
    const statements = insertStatements('prices', [{ column, texts, defaulted }], { op: 'upsert' }, 20);
    expect(statements.map(({ values }) => values.slice(3))).toEqual([
      ['{"aaaa",NULL,"b"}', '{"false","true","false"}'],
      [`{"${'c'.repeat(50)}"}`, '{"false"}'],
      ['{"\\"\\\\"}', '{"false"}'],
    ]);
  });

  test.each([
    ['Drizzle', async (row: Record<string, unknown>) => correct(orm, things, row as never)],
    [
      'names',
      async (row: Record<string, unknown>) =>
        correct(
          client,
          byName.things,
          Object.fromEntries(
            Object.entries(row).map(([name, value]) => [name === 'seenAt' ? 'seen_at' : name, value]),
          ),
        ),
    ],
  ])('values arrive as they were given (%s)', async (_, write) => {
    await write({
      id: 9007199254740993n,
      code: 'a"b',
      f: 1e300,
      n: '1234567890123456789012345678901234567890.5',
      doc: { a: [1, null, "it's"], b: '"' },
      tags: ['a,b', '"', '\\', '', 'NULL', null],
      matrix: [
        [1, 2],
        [3, 4],
      ],
      raw: Buffer.from([0, 255]),
      day: 'infinity',
      seenAt: '0044-03-15 12:00:00.123456 BC',
    });
    await write({ id: 2n, f: -0, seenAt: new Date('2026-01-01T00:00:00.123Z'), doc: [], tags: [], code: '' });
    await write({ id: 3n, f: 'NaN' });
    const columns = 'id, code, f, n, doc, tags, matrix, raw, day, seen_at';
    const nothing = {
      code: null,
      f: null,
      n: null,
      doc: null,
      tags: null,
      matrix: null,
      raw: null,
      day: null,
      seen_at: null,
    };
    expect(await written('things', columns)).toEqual([
      {
        id: '9007199254740993',
        code: 'a"b',
        f: '1e+300',
        n: '1234567890123456789012345678901234567890.5000000000',
        doc: '{"a": [1, null, "it\'s"], "b": "\\""}',
        tags: '{"a,b","\\"","\\\\","","NULL",NULL}',
        matrix: '{{1,2},{3,4}}',
        raw: '\\x00ff',
        day: 'infinity',
        seen_at: '0044-03-15 12:00:00.123456 BC',
      },
      { ...nothing, id: '2', f: '-0', seen_at: '2026-01-01 00:00:00.123', doc: '[]', tags: '{}', code: '' },
      { ...nothing, id: '3', f: 'NaN' },
    ]);
  });

  test('a text for a json column is JSON text by name, and a JSON string through Drizzle', async () => {
    await correct(client, byName.things, { id: 1, doc: '{"n": 12345678901234567890.5}' });
    await correct(orm, things, { id: 1n, doc: 'plain' });
    await correct(client, byName.things, { id: 1, doc: 1.5, flag: false });
    expect(await written('things', 'doc')).toEqual([
      { doc: '{"n": 12345678901234567890.5}' },
      { doc: '"plain"' },
      { doc: '1.5' },
    ]);
  });

  test('a Date is a day as it is in UTC, and refused where that would make another day of it', async () => {
    await correct(orm, things, { id: 1n, day: new Date('2026-01-01') });
    await correct(client, byName.things, { id: 1, day: new Date('2026-01-01') });
    await expect(
      correct(orm, things, { id: 1n, day: new Date('2026-01-01T00:00:00+02:00') }),
    ).rejects.toMatchObject({ code: 'correction_invalid' });
    expect(await written('things', 'day')).toEqual([{ day: '2026-01-01' }, { day: '2026-01-01' }]);
  });

  test('a text that is too long for its column is refused, not cut', async () => {
    await expect(correct(client, byName.things, { id: 1, code: 'long' })).rejects.toThrow('value too long');
  });

  test.each<[what: string, rows: unknown, message: string]>([
    ['NUL', [{ id: 1 }, { id: 2, code: 'a\0' }], 'row 1: "code" has a NUL character'],
    [
      'half a surrogate pair',
      { id: 2, tags: ['ok', '\ud800'] },
      'row 0: "tags" has half of a surrogate pair',
    ],
    ['a number beyond 2^53', { id: 2 ** 60 }, 'row 0: "id" is a number beyond'],
    ['an invalid Date', { id: 1, day: new Date('x') }, 'row 0: "day" is an invalid Date'],
    [
      'a Date with a time of day for a date',
      { id: 1, day: new Date('2026-01-01T00:00:00+02:00') },
      'row 0: "day" is a Date with a time of day',
    ],
    [
      'a Date of before Christ',
      { id: 1, day: new Date('-000043-01-01') },
      'row 0: "day" is a Date outside the years',
    ],
    ['an object for a text', { id: 1, code: { a: 1 } }, 'row 0: "code" is an object'],
    ['a function', { id: 1, code: () => 'x' }, 'row 0: "code" is a function'],
    ['an SQL expression', { id: 1, day: sql`now()` }, 'row 0: "day" is an SQL expression'],
    ['JSON with a bigint', { id: 1, doc: { a: 1n } }, 'row 0: "doc" cannot be written as JSON'],
    ['an unknown column', { id: 1, colour: 'x' }, 'row 0: corrections.things has no column for "colour"'],
    ['NaN, a computation that failed', { id: 1, f: NaN }, 'row 0: "f" is NaN'],
    ['NaN for json, which would make null of it', { id: 1, doc: NaN }, 'row 0: "doc" is NaN'],
    ['NaN in an array', { id: 1, matrix: [[1, NaN]] }, 'row 0: "matrix" is NaN'],
    ["emend's own column", { id: 1, _id: 5 }, 'row 0: corrections.things has no column for "_id"'],
    ['no object', [{ id: 1 }, 5], 'row 1 is not an object'],
    ['an empty row', {}, 'row 0 states nothing'],
  ])('refuses %s, and says where without the value', async (_, rows, message) => {
    await expect(correct(client, byName.things, rows as Record<string, unknown>)).rejects.toMatchObject({
      code: 'correction_invalid',
      message: expect.stringContaining(message) as string,
    });
    expect(await written('things', 'id')).toEqual([]);
  });

  test('a session that would turn nulls into the text NULL is refused', async () => {
    const row = { productId: 'N', price: '1', validFrom: '2026-01-01', note: null };
    await client.query('begin; set local array_nulls = off');
    await expect(correct(client, prices, row)).rejects.toThrow('nulls would be written as the text NULL');
    await client.query('rollback');
    expect(await written('prices', 'note')).toEqual([]);
  });

  test.each(['', ' \n'])(
    'a reason of %j is refused: it would be kept for ever and say nothing',
    async (reason) => {
      const refused = {
        code: 'correction_invalid',
        message: expect.stringContaining('reason is empty') as string,
      };
      await expect(correct(client, byName.things, { id: 1 }, { reason })).rejects.toMatchObject(refused);
      await expect(retract(client, byName.things, { id: 1 }, { reason })).rejects.toMatchObject(refused);
      expect(await written('things', 'id')).toEqual([]);
    },
  );

  test('what only Postgres knows is its own error', async () => {
    await expect(
      correct(client, byName.prices, {
        product_id: 'A',
        valid_from: '2026-01-02',
        valid_to: '2026-01-01',
        price: 1,
      }),
    ).rejects.toMatchObject({
      code: '23514',
      constraint: 'valid_from must be before valid_to',
    });
  });

  test('no rows, nothing written; a target without configuration or log is told apart', async () => {
    expect(await correct(client, prices, [])).toEqual([]);
    await expect(correct(client, facts('public.x', { key: ['id'] }), { id: 1 })).rejects.toMatchObject({
      code: 'target_unknown',
    });
    const { targets } = defineConfig({ targets: { nowhere: facts('public.x', { key: ['id'] }) } });
    await expect(correct(client, targets.nowhere, { id: 1 })).rejects.toMatchObject({ code: 'not_migrated' });
  });
});

describe('retract() and withdraw()', () => {
  test('state a key and a period', async () => {
    await orm.transaction(async (tx) => {
      await retract(
        tx,
        prices,
        { productId: 'A', validFrom: '2026-01-01', validTo: '2026-02-01' },
        { reason: 'never so' },
      );
      await retract(tx, prices, [{ productId: 'B', validFrom: '2026-01-01' }]);
    });
    await retract(client, byName.things, { id: 1 });
    expect(await written('prices', 'product_id, valid_to, price, _op, _reason')).toEqual([
      {
        product_id: 'A',
        valid_to: '2026-01-31 15:00:00+00',
        price: null,
        _op: 'retract',
        _reason: 'never so',
      },
      { product_id: 'B', valid_to: null, price: null, _op: 'retract', _reason: null },
    ]);
    await withdraw(client, addresses, { person: 1, since: '2026-01-01' });
    const { rows } = await db.source.query('select person, since, city, _op from corrections.addresses');
    expect(rows).toEqual([{ person: '1', since: '2026-01-01', city: null, _op: 'withdraw' }]);
  });

  test('refuse a value', async () => {
    await expect(retract(client, byName.things, { id: 1, code: 'x' })).rejects.toMatchObject({
      code: 'correction_invalid',
      message: 'row 0: a retract has no value for "code"',
    });
  });
});

test('rows of a backfill carry its name, and an unknown one is refused', async () => {
  await db.source.query(`insert into corrections._backfill (name, targets) values ('b1', '{things}')`);
  await correct(client, byName.things, { id: 1 }, { backfill: 'b1' });
  expect(await written('things', '_backfill')).toEqual([{ _backfill: 'b1' }]);
  await expect(correct(client, byName.things, { id: 1 }, { backfill: 'b2' })).rejects.toThrow(
    'there is no backfill "b2"',
  );
});
