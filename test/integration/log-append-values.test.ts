import { sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type pg from 'pg';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { correct } from '../../src/log/append.ts';
import { byName, createLogs, lastOf, prices, things, writtenAfter } from '../support/log-append.ts';
import type { SourceUnderTest } from '../support/source.ts';

let db: SourceUnderTest;
let client: pg.Client;
let orm: NodePgDatabase;
let before: string;
beforeAll(async () => {
  ({ db, client, orm } = await createLogs('log append values'));
});
beforeEach(async () => {
  before = await lastOf(db);
});

const written = (table: string, columns: string) => writtenAfter(db, before, table, columns);

describe('correct()', () => {
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
});
