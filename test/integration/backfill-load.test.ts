import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadRemedy, loadRows } from '../../src/backfill/load.ts';
import type { LoadWork } from '../../src/backfill/load.ts';
import { loadSql } from '../../src/backfill/load-sql.ts';
import { readInput } from '../../src/backfill/read-rows.ts';
import { createSkipFile } from '../../src/backfill/skip-file.ts';
import { abandonBackfill, openBackfill, sealBackfill } from '../../src/log/backfill.ts';
import { withTransaction } from '../../src/db/transaction.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { createSource } from '../support/source.ts';
import type { SourceUnderTest } from '../support/source.ts';

describe('loading a backfill', () => {
  let db: SourceUnderTest;
  let folder: string;
  beforeAll(async () => {
    const databases = await createDatabases('backfill load');
    folder = await mkdtemp(join(tmpdir(), 'emend-load-'));
    db = await createSource(
      databases,
      `create table public.fares (
         route text not null, cabin char(1) not null default 'Y', valid_from date not null, valid_to date not null,
         price numeric(8, 2) not null, note varchar(5) default 'none', doc json, tags text[],
         check (price >= 0)
       )`,
      [
        {
          name: 'fares',
          kind: 'timeline',
          key: ['route', 'cabin'],
          period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
        },
      ],
    );
  });
  afterAll(async () => {
    await db.source.end();
    await db.store.end();
    await rm(folder, { recursive: true, force: true });
  });

  let named = 0;
  const opened = async () => {
    const name = `b-${++named}`;
    await openBackfill(db.source, { name, targets: ['fares'], reason: 'contract', logicVersion: 'v1' });
    return name;
  };
  const file = (text: string, ending = 'ndjson') => {
    const path = join(folder, `f-${++named}.${ending}`);
    writeFileSync(path, text);
    return path;
  };
  const fare = (n: number, over: object = {}) => ({
    route: `R${n}`,
    cabin: 'Y',
    valid_from: '2026-01-01',
    price: n,
    ...over,
  });
  const lines = (rows: readonly object[]) => rows.map((row) => JSON.stringify(row)).join('\n') + '\n';
  const fares = (count: number) => Array.from({ length: count }, (_, n) => fare(n + 1));
  const load = (name: string, path: string, over: Partial<LoadWork> = {}) =>
    loadRows({
      source: db.source,
      target: db.targets[0]!,
      name,
      input: 'fares',
      rows: readInput({ path, remedy: loadRemedy }),
      ...over,
    });
  const routesOf = async (name: string) => {
    const { rows } = await db.source.query<{ route: string }>(
      `select route from corrections.fares where _backfill = $1 order by _id`,
      [name],
    );
    return rows.map(({ route }) => Number(route.slice(1)));
  };
  const chunksOf = async (name: string) => {
    const { rows } = await db.source.query<{ rows: string; loaded: string }>(
      `select r.details ->> 'rows' as rows,
         (select count(*) from corrections.fares l where l._backfill = $1
            and l._id between (r.details ->> 'first')::bigint and (r.details ->> 'last')::bigint) as loaded
       from corrections._request r where r.backfill = $1 and r.request = 'chunk' order by r._id`,
      [name],
    );
    return rows.map((row) => `${row.rows}/${row.loaded}`);
  };
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1);

  test('takes CSV and NDJSON in the order of the lines, and asks for each chunk', async () => {
    const name = await opened();
    const seen: number[] = [];
    const loaded = await load(name, file(lines(fares(12))), {
      chunkRows: 5,
      onProgress: ({ read }) => seen.push(read),
    });
    expect(loaded).toEqual({
      backfill: name,
      target: 'fares',
      input: 'fares',
      read: 12,
      written: 12,
      skipped: 0,
    });
    expect(seen).toEqual([5, 10, 12]);
    await load(name, file('route,cabin,valid_from,price,note\nR13,Y,2026-01-01,13,""\n', 'csv'), {
      input: 'more',
    });
    expect(await routesOf(name)).toEqual(numbers(13));
    expect(await chunksOf(name)).toEqual(['5/5', '5/5', '2/2', '1/1']);
    await sealBackfill(db.source, name);
    expect(await chunksOf(name)).toHaveLength(4);
  });

  test.each([1, 2, 3])('killed in chunk %i and run again, it has each row once', async (killAt) => {
    const name = await opened();
    const path = file(lines(fares(20)));
    let chunks = 0;
    const killed = load(name, path, {
      chunkRows: 5,
      onProgress: () => {
        if (++chunks === killAt) throw new Error('killed');
      },
    });
    await expect(killed).rejects.toThrow('killed');
    const again = await load(name, path, { chunkRows: 7 });
    expect(again).toMatchObject({ read: 20, written: 20 - 5 * killAt });
    expect(await routesOf(name)).toEqual(numbers(20));
  });

  test('a chunk whose connection dies before its commit leaves nothing, and is loaded by the next run', async () => {
    const name = await opened();
    const path = file(lines(fares(10)));
    await load(name, file(lines(fares(3))), { input: 'before' });
    const loading = await withTransaction(db.source, async (blocker) => {
      // the rows of the chunk are written, its request is not
      await blocker.query('lock table corrections._request in share mode');
      const failed = load(name, path).catch((error: unknown) => error);
      await eventually(async () => {
        const { rows } = await db.source.query(
          `select pg_terminate_backend(a.pid) from pg_stat_activity a
           where a.datname = current_database() and a.wait_event_type = 'Lock'`,
        );
        expect(rows).toHaveLength(1);
      });
      return { failed };
    });
    expect(await loading.failed).toMatchObject({ code: '57P01' });
    expect(await routesOf(name)).toEqual([1, 2, 3]);
    expect(await load(name, path)).toMatchObject({ read: 10, written: 10 });
    expect(await routesOf(name)).toEqual([1, 2, 3, ...numbers(10)]);
  });

  test('loaded again when done, changes nothing, also after it was sealed', async () => {
    const name = await opened();
    const path = file(lines(fares(3)));
    await load(name, path);
    expect(await load(name, path)).toMatchObject({ read: 3, written: 0 });
    await sealBackfill(db.source, name);
    expect(await load(name, path)).toMatchObject({ read: 3, written: 0 });
    expect(await routesOf(name)).toEqual([1, 2, 3]);
  });

  test.each([
    ['another value', lines([fare(1), fare(2, { price: 3 }), fare(3)])],
    ['a row more', lines(fares(4))],
    ['a row less', lines(fares(2))],
  ])('other content under the name of an input is refused: %s', async (_what, other) => {
    const name = await opened();
    await load(name, file(lines(fares(3))));
    await expect(load(name, file(other))).rejects.toMatchObject({ code: 'backfill_refused' });
    expect(await routesOf(name)).toEqual([1, 2, 3]);
  });

  test('two that load one input at once write each row once', async () => {
    const name = await opened();
    const path = file(lines(fares(300)));
    const results = await Promise.allSettled([
      load(name, path, { chunkRows: 10 }),
      load(name, path, { chunkRows: 10 }),
    ]);
    for (const result of results) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'backfill_busy' });
    }
    await load(name, path);
    expect(await routesOf(name)).toEqual(numbers(300));
  });

  const bad: [string, string, string, RegExp][] = [
    [
      'a value of another type',
      'ndjson',
      JSON.stringify(fare(2, { price: 'much' })),
      /column price: a text of 4 characters is refused: invalid input syntax for type numeric$/,
    ],
    [
      'a number that is too large',
      'ndjson',
      JSON.stringify(fare(2, { price: 1234567.5 })),
      /column price: a number of 8 digits is refused: numeric field overflow/,
    ],
    [
      'a text that is too long',
      'ndjson',
      JSON.stringify(fare(2, { note: 'lengthy' })),
      /column note: a text of 7 characters is refused: value too long/,
    ],
    [
      'no JSON in a json column',
      'ndjson',
      JSON.stringify(fare(2, { doc: '{' })),
      /column doc: a text of 1 character is refused: invalid input syntax for type json/,
    ],
    [
      'an impossible date',
      'ndjson',
      JSON.stringify(fare(2, { valid_from: '2026-02-30' })),
      /column valid_from: a text of 10 characters is refused: date\/time field value out of range/,
    ],
    [
      'a period backwards',
      'ndjson',
      JSON.stringify(fare(2, { valid_to: '2025-01-01' })),
      /breaks the rule "valid_from must be before valid_to"/,
    ],
    [
      'a value that is missing',
      'ndjson',
      JSON.stringify(fare(2, { price: null })),
      /breaks the rule "an upsert needs price"/,
    ],
    [
      'a key that is missing',
      'ndjson',
      JSON.stringify(fare(2, { route: null })),
      /column route: null is refused/,
    ],
    [
      "a rule of the user's own",
      'ndjson',
      JSON.stringify(fare(2, { price: -1 })),
      /breaks the rule "fares_price_check"/,
    ],
    [
      'half a character',
      'ndjson',
      '{"route":"\\ud800","cabin":"Y","valid_from":"2026-01-01","price":1}',
      /column route: it has half of a surrogate pair/,
    ],
    [
      'a zero character',
      'ndjson',
      '{"route":"\\u0000","cabin":"Y","valid_from":"2026-01-01","price":1}',
      /column route: a text of 1 character is refused/,
    ],
    [
      'a column that is not there',
      'ndjson',
      JSON.stringify(fare(2, { colour: 1 })),
      /has no column "colour"/,
    ],
    [
      'a JSON array for an array',
      'ndjson',
      JSON.stringify(fare(7, { tags: ['x', 'y'] })),
      /column tags: a JSON array is refused: write an array as PostgreSQL does, in a text: "\{x,y\}"$/,
    ],
    ['what is no JSON', 'ndjson', '{"route":', /it cannot be read/],
  ];

  test.each(bad)(
    '%s is refused with line and rule, and nothing of its chunk stays',
    async (_what, ending, line, message) => {
      const name = await opened();
      const text = [...fares(6).map((row) => JSON.stringify(row)), line, JSON.stringify(fare(8))].join('\n');
      const refused: unknown = await load(name, file(text, ending), { chunkRows: 4 }).catch(
        (error: unknown) => error,
      );
      expect(refused).toMatchObject({ code: 'correction_invalid' });
      expect((refused as Error).message).toMatch(/^fares, line 7: /);
      expect((refused as Error).message).toMatch(message);
      expect(await routesOf(name)).toEqual([1, 2, 3, 4]);
      // mended, it goes on
      const mended = file(lines([...fares(6), fare(7), fare(8)]));
      expect(await load(name, mended)).toMatchObject({ read: 8, written: 4 });
      expect(await routesOf(name)).toEqual(numbers(8));
    },
  );

  const csvOf = (...lines: string[]) =>
    ['route,cabin,valid_from,price', 'R1,Y,2026-01-01,1', ...lines].join('\n');
  const ndjsonOf = (...lines: string[]) =>
    [JSON.stringify(fare(1)), JSON.stringify(fare(2)), ...lines].join('\n');
  const twice: [string, string, string][] = [
    ['a column that is not there', 'ndjson', ndjsonOf(JSON.stringify(fare(3, { price: 'much' })), JSON.stringify(fare(4, { colour: 1 })))],
    ['what is no JSON', 'ndjson', ndjsonOf(JSON.stringify(fare(3, { colour: 1 })), '{"route":')],
    ['what is no text', 'ndjson', `${ndjsonOf(JSON.stringify(fare(3, { price: 'much' })), JSON.stringify(fare(4)))}\n${'x'.repeat(200_000)}\0`],
    ['a line with too few fields', 'csv', csvOf('R2,Y,2026-01-01,much', 'R3,Y')],
    ['half of a surrogate pair', 'ndjson', ndjsonOf(JSON.stringify(fare(3, { price: -1 })), '{"route":"\\ud800","cabin":"Y","valid_from":"2026-01-01","price":1}')],
    ['a quote that is never closed', 'csv', csvOf('R2,Y,2026-01-01,much', 'R3,Y,2026-01-01,3', '"R4,Y,2026-01-01,4')],
    ['a quote that is never closed, behind what needs the parser', 'csv', csvOf('', 'R2,Y,2026-01-01,much', '"R4,Y,2026-01-01,4')],
    ['the same value', 'csv', csvOf('R2,Y,2026-01-01,much', 'R3,Y,2026-01-01,much')],
  ]; // prettier-ignore

  test.each(twice)('of a bad value and, behind it, %s, the first is named', async (_what, ending, text) => {
    const name = await opened();
    const refused: unknown = await load(name, file(text, ending)).catch((error: unknown) => error);
    const line = text.split('\n').findIndex((each) => /much|colour|-1}/.test(each)) + 1;
    expect(refused).toMatchObject({
      code: 'correction_invalid',
      message: expect.stringMatching(
        new RegExp(`^fares, line ${line}: (column price|fares has no column|it breaks)`),
      ),
    });
  });

  test('a value never stands in the error, whatever it is', async () => {
    for (const over of [
      { price: 'secret' },
      { valid_from: 'secret' },
      { note: 'secret' },
      { doc: 'secret' },
    ]) {
      const name = await opened();
      const refused: unknown = await load(name, file(lines([fare(1, over)]))).catch(
        (error: unknown) => error,
      );
      expect((refused as Error).message).toMatch(/line 1/);
      expect((refused as Error).message).not.toContain('secret');
    }
  });

  test('bad lines are set aside with their reasons, and the others are loaded', async () => {
    const name = await opened();
    const path = join(folder, 'skipped.ndjson');
    const text = [JSON.stringify(fare(1)), ...bad.map(([, , line]) => line), JSON.stringify(fare(2))].join(
      '\n',
    );
    const loaded = await load(name, file(text), { chunkRows: 4, skipBad: createSkipFile(path) });
    expect(loaded).toMatchObject({ read: bad.length + 2, written: 2, skipped: bad.length });
    expect(await routesOf(name)).toEqual([1, 2]);
    const skipped = readFileSync(path, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { line: number; reason: string; row: unknown });
    expect(skipped.map(({ line }) => line)).toEqual(bad.map((_each, place) => place + 2));
    expect(skipped[0]).toMatchObject({ column: 'price', row: { route: 'R2', price: 'much' } });
    expect(skipped.at(-1)!.row).toBe('{"route":');
  });

  test.each([
    ['the input itself', `${lines([fare(1), fare(2)])}no JSON at all\n`],
    ['a file of something else', 'notes\nof mine\n'],
    ['a file of one line', 'of mine'],
  ])('the file for bad lines is not %s: it is refused, and nothing of it is lost', async (what, text) => {
    const name = await opened();
    const path = file(text);
    const input = what === 'the input itself' ? path : file(lines([fare(1)]));
    await expect(load(name, input, { skipBad: createSkipFile(path) })).rejects.toMatchObject({
      code: 'bad_arguments',
    });
    expect(readFileSync(path, 'utf8')).toBe(text);
    expect(await routesOf(name)).toEqual([]);
  });

  test('a file for bad lines in a folder that is not there is refused', async () => {
    const skipBad = createSkipFile(join(folder, 'nowhere', 'bad.ndjson'));
    await expect(load(await opened(), file(lines([fare(1)])), { skipBad })).rejects.toMatchObject({
      code: 'bad_arguments',
    });
  });

  test('CSV on stdin without its format is refused with the option that names it, and taken with it', async () => {
    const name = await opened();
    const stdin = Object.getOwnPropertyDescriptor(process, 'stdin')!;
    const given = (format?: 'csv') => {
      const text = 'route,cabin,valid_from,price\nR1,Y,2026-01-01,1\n';
      Object.defineProperty(process, 'stdin', {
        value: Readable.from([Buffer.from(text)]),
        configurable: true,
      });
      return load(name, '-', { rows: readInput({ path: '-', format, remedy: loadRemedy }) });
    };
    try {
      await expect(given()).rejects.toThrow(
        /line 1: it cannot be read as NDJSON \(of CSV, say so: --format csv\)/,
      );
      expect(await given('csv')).toMatchObject({ written: 1 });
    } finally {
      Object.defineProperty(process, 'stdin', stdin);
    }
  });

  test('CSV: an empty field is null and a quoted one is the empty text, also in a line that has both', async () => {
    const name = await opened();
    const rows = [
      'R1,Y,2026-01-01,,1,',
      '',
      'R2,Y,2026-01-01,2027-01-01,2,""',
      'R3,Y,2026-01-01,,3,""',
      'R4,Y,2026-01-01,,4,"""x"',
    ];
    await load(name, file(['route,cabin,valid_from,valid_to,price,note', ...rows].join('\n'), 'csv'));
    const { rows: loaded } = await db.source.query<{ route: string }>(
      `select route, valid_to, note from corrections.fares where _backfill = $1 order by _id`,
      [name],
    );
    expect(loaded).toEqual([
      { route: 'R1', valid_to: null, note: null },
      { route: 'R2', valid_to: '2027-01-01', note: '' },
      { route: 'R3', valid_to: null, note: '' },
      { route: 'R4', valid_to: null, note: '"x' },
    ]);
  });

  test('CSV: a line with too few fields is set aside, and a header that names no column never is', async () => {
    const name = await opened();
    const path = join(folder, 'skipped-csv.ndjson');
    const skipBad = createSkipFile(path);
    await load(
      name,
      file('route,cabin,valid_from,price\nR1,Y,2026-01-01,1\nR2,Y\nR3,Y,2026-01-01,3\n', 'csv'),
      { skipBad },
    );
    expect(await routesOf(name)).toEqual([1, 3]);
    expect(readFileSync(path, 'utf8')).toMatch(/"line":3,.*it has 2 fields, and the header names 4/);
    const misspelt = file('route,cabin,valid_form,price\nR4,Y,2026-01-01,4\n', 'csv');
    await expect(load(name, misspelt, { skipBad, input: 'other' })).rejects.toThrow(
      /has no column "valid_form"/,
    );
  });

  const rows = 'R1,Y,2026-01-01,1\nR2,Y,2026-01-01,2\n';
  test.each<[string, string, string]>([
    ['in another case', `Route,cabin,valid_from,price\n${rows}`, 'fares has no column "Route": did you mean "route"? (to leave it out: --ignore Route)'],
    ['before what needs the parser', `route,cabin,valid_from,Price\n\n${rows}`, 'fares has no column "Price": did you mean "price"? (to leave it out: --ignore Price)'],
    ['that there is not', `route,cabin,valid_from,price,x\n${rows.replaceAll('\n', ',1\n')}`, 'fares has no column "x" (to leave it out: --ignore x)'],
    ['separated by something else', `route,cabin,valid_from,price\n${rows}`.replaceAll(',', ';'), 'the header is one column, with ";" in it: columns are separated by commas'],
  ])('CSV: a column %s is a fault of line 1, the header', async (_what, text, message) => {
    await expect(load(await opened(), file(text, 'csv'))).rejects.toThrow(`fares, line 1: ${message}`);
  }); // prettier-ignore

  test('killed while it sets lines aside and run again, each stands in the file once', async () => {
    const name = await opened();
    const path = join(folder, 'killed.ndjson');
    const rows = fares(20).map((row, n) => (n % 3 === 1 ? { ...row, price: 'bad' } : row));
    const source = file(lines(rows));
    let chunks = 0;
    const killed = load(name, source, {
      chunkRows: 5,
      skipBad: createSkipFile(path),
      onProgress: () => {
        if (++chunks === 2) throw new Error('killed');
      },
    });
    await expect(killed).rejects.toThrow('killed');
    // what a run writes that is killed before its commit
    writeFileSync(
      path,
      `${readFileSync(path, 'utf8')}{"line":11,"column":"price","reason":"x","row":{}}\n{"line":1`,
      'utf8',
    );
    const loaded = await load(name, source, { chunkRows: 5, skipBad: createSkipFile(path) });
    const wrong = numbers(20).filter((n) => n % 3 === 2);
    expect(loaded).toMatchObject({ read: 20, skipped: wrong.length });
    expect(
      readFileSync(path, 'utf8')
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { line: number }).line),
    ).toEqual(wrong);
    expect(await routesOf(name)).toEqual(numbers(20).filter((n) => n % 3 !== 2));
  });

  test('a field that is left out gets the default of its column, whatever the lines beside it state', async () => {
    for (const chunkRows of [1, 3]) {
      const name = await opened();
      const { note: _none, ...without } = fare(1, { note: '' }) as { note?: string };
      await load(name, file(lines([without, fare(2, { note: null }), fare(3, { note: 'x' })])), {
        chunkRows,
      });
      const { rows } = await db.source.query(
        `select note from corrections.fares where _backfill = $1 order by _id`,
        [name],
      );
      expect(rows).toEqual([{ note: 'none' }, { note: null }, { note: 'x' }]);
    }
  });

  test('wide rows are cut into chunks by their size', async () => {
    const name = await opened();
    const wide = fares(6).map((row) => ({ ...row, doc: JSON.stringify('x'.repeat(3_000_000)) }));
    await load(name, file(lines(wide)));
    expect(await chunksOf(name)).toEqual(['2/2', '2/2', '2/2']);
  });

  test('a backfill that is closed takes no rows, before and in the middle of a load', async () => {
    const name = await opened();
    const path = file(lines(fares(10)));
    let chunks = 0;
    const closing = load(name, path, {
      chunkRows: 3,
      rows: (async function* () {
        for await (const row of readInput({ path, remedy: '' })) {
          if (++chunks === 6) await abandonBackfill(db.source, name, { reason: 'wrong' });
          yield row;
        }
      })(),
    });
    await expect(closing).rejects.toMatchObject({
      code: 'backfill_refused',
      message: expect.stringContaining('was closed at') as string,
    });
    await expect(load(name, path)).rejects.toMatchObject({ code: 'backfill_refused' });
    await expect(load('nope', path)).rejects.toThrow('there is no backfill nope');
  });

  test('a select in the source is loaded once, in its order, with a request for every 5,000 rows', async () => {
    const name = await opened();
    await db.source.query(`create table if not exists public.raw (route text, price integer)`);
    await db.source.query(`insert into public.raw select 'R' || n, n from generate_series(1, 6000) as n`);
    const sql = `select route, 'Y' as cabin, date '2026-01-01' as valid_from, price from raw order by price;`;
    const work = { source: db.source, target: db.targets[0]!, name };
    expect(await loadSql({ ...work, sql })).toMatchObject({ read: 6000, written: 6000 });
    expect(await loadSql({ ...work, sql })).toMatchObject({ read: 6000, written: 0 });
    expect(await routesOf(name)).toEqual(numbers(6000));
    expect(await chunksOf(name)).toEqual(['5000/5000', '1000/1000']);
    await expect(loadSql({ ...work, sql: `${sql} `, input: `sql-x` })).resolves.toMatchObject({
      written: 6000,
    });
    await expect(loadSql({ ...work, sql: 'select 1 as route', input: 'sql-x' })).rejects.toThrow(
      /another select/,
    );
  });

  test.each([
    ['is no SQL', 'selekt 1', /cannot be run in the source: syntax error/],
    [
      'names no table',
      'select * from nowhere',
      /cannot be run in the source: relation "nowhere" does not exist/,
    ],
    ['gives another column', `select 1 as colour`, /gives "colour", which fares has no column for/],
    [
      'gives no row',
      `select 'R' as route, date '2026-01-01' as valid_from, 1 as price where false`,
      /gives no row/,
    ],
    [
      'gives a bad row',
      `select 'R' as route, date '2026-01-01' as valid_from, -1 as price`,
      /refuses a row of the select: .*fares_price_check/,
    ],
  ])('a select that %s is refused, and nothing of it is taken', async (_what, sql, message) => {
    const name = await opened();
    await expect(loadSql({ source: db.source, target: db.targets[0]!, name, sql })).rejects.toThrow(message);
    expect(await routesOf(name)).toEqual([]);
    expect(await chunksOf(name)).toEqual([]);
  });
});
