import { describe, expect, test } from 'vitest';
import { loadSql } from '../../src/backfill/load-sql.ts';
import { readInput } from '../../src/backfill/read-rows.ts';
import { withTransaction } from '../../src/db/transaction.ts';
import { abandonBackfill, sealBackfill } from '../../src/log/backfill.ts';
import { eventually } from '../support/eventually.ts';
import { fare, fares, lines, numbers, setUpFares } from '../support/fares.ts';

describe('loading a backfill', () => {
  const { db, opened, file, load, routesOf, chunksOf } = setUpFares('backfill load');

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
