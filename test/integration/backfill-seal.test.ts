import { describe, expect, test } from 'vitest';
import { withClient, withTransaction } from '../../src/db/transaction.ts';
import { chunkBackfill, openBackfill, sealBackfill } from '../../src/log/backfill.ts';
import { setUpBackfillSource } from '../support/backfill-source.ts';

describe('backfills in the source', () => {
  const {
    db,
    opening,
    opened,
    insert,
    loaded,
    sealedOf,
    stateOf,
    requestsOf,
    chunksOf,
    inTransaction,
    untilSomebodyWaits,
  } = setUpBackfillSource('backfill seal');

  test('seal waits for a transaction that is still adding rows, and counts them', async () => {
    const name = await loaded();
    const loader = await inTransaction();
    await loader.query(insert(name, 2, 100));
    let sealed = false;
    const sealing = sealBackfill(db.source, name).then(() => (sealed = true));
    await untilSomebodyWaits();
    expect(sealed).toBe(false);
    await loader.query('commit');
    await sealing;
    expect((await sealedOf(name))!.prices!.rows).toBe(3);
  });

  test('a row that is rolled back while seal waits is not counted', async () => {
    const name = await loaded();
    const loader = await inTransaction();
    await loader.query(insert(name, 2, 100));
    const sealing = sealBackfill(db.source, name);
    await untilSomebodyWaits();
    await loader.query('rollback');
    await sealing;
    expect((await sealedOf(name))!.prices!.rows).toBe(1);
  });

  test('no row comes in while or after it is sealed, also not in the transaction that seals', async () => {
    const name = await loaded();
    const sealer = await inTransaction();
    await sealBackfill(sealer, name);
    const late = db.source.query(insert(name)).then(
      () => 'slipped in',
      (error: Error) => error.message,
    );
    await untilSomebodyWaits();
    await sealer.query('commit');
    expect(await late).toMatch(/was closed at/);
    await expect(db.source.query(insert(name))).rejects.toThrow(/was closed at/);
    const other = await loaded();
    await expect(
      withTransaction(db.source, async (tx) => {
        await sealBackfill(tx, other);
        await tx.query(insert(other));
      }),
    ).rejects.toThrow(/was closed at/);
    expect(await stateOf(other)).toBe('open');
  });

  test('of two that seal at once one does, and the other changes nothing', async () => {
    const name = await loaded();
    const first = await inTransaction();
    const id = await sealBackfill(first, name);
    const second = sealBackfill(db.source, name);
    await untilSomebodyWaits();
    await first.query('commit');
    expect(await second).toBe(id);
    expect(await requestsOf(name)).toEqual(['chunk', 'seal']);
  });

  test('a snapshot from before the wait cannot seal', async () => {
    const name = await loaded();
    await withClient(db.source, async (client) => {
      await client.query('begin isolation level repeatable read');
      await expect(sealBackfill(client, name)).rejects.toMatchObject({ code: 'EM002' });
      await client.query('rollback');
    });
    expect(await stateOf(name)).toBe('open');
  });

  test('every row is asked for: what chunks left out, what slipped between, and nothing twice', async () => {
    const name = await opened();
    const slow = await inTransaction();
    await slow.query(insert(name, 1, 50));
    await withTransaction(db.source, async (tx) => {
      const { rows } = await tx.query<{ first: string; last: string }>(
        `with added as (${insert(name, 3, 100).text} returning _id) select min(_id) as first, max(_id) as last from added`,
        insert(name, 3, 100).values,
      );
      expect(await chunkBackfill(tx, name, { target: 'prices', ...rows[0]! })).toBe(3);
    });
    await slow.query(insert(name, 1, 51));
    await db.source.query(insert(name, 1, 200));
    await slow.query('commit');
    await sealBackfill(db.source, name);
    const chunks = await chunksOf(name);
    expect(chunks.map(({ rows }) => rows)).toEqual([3, 1, 2]);
    const { rows } = await db.source.query<{ _id: string; asked: string }>(
      `select l._id, count(r._id) as asked
       from corrections.prices l
       left join corrections._request r on r.backfill = l._backfill and r.request = 'chunk'
         and l._id between (r.details ->> 'first')::bigint and (r.details ->> 'last')::bigint
       where l._backfill = $1 group by l._id`,
      [name],
    );
    expect(rows.map((row) => row.asked)).toEqual(Array(6).fill('1'));
  });

  test('a seal of what was loaded a moment ago takes no longer for a planner that believes the log to be empty', async () => {
    const backfill = opening();
    await openBackfill(db.source, backfill);
    await db.source.query(`alter table corrections.prices set (autovacuum_enabled = off)`);
    await db.source.query(
      `insert into corrections.prices (product, valid_from, valid_to, price, _backfill) values ('p', '2026-01-01', '2026-02-01', 1, $1)`,
      [backfill.name],
    );
    await db.source.query(`analyze corrections.prices`);
    for (let load = 0; load < 20; load += 1) {
      await db.source.query(
        `insert into corrections.prices (product, valid_from, valid_to, price, _backfill)
         select 'p' || i, '2026-01-01', '2026-02-01', 1, $1 from generate_series(1, 1000) i`,
        [backfill.name],
      );
      const { rows } = await db.source.query<{ first: string; last: string }>(
        `select max(_id) - 999 as first, max(_id) as last from corrections.prices where _backfill = $1`,
        [backfill.name],
      );
      await chunkBackfill(db.source, backfill.name, { target: 'prices', ...rows[0]! });
    }
    const start = performance.now();
    await sealBackfill(db.source, backfill.name);
    expect(performance.now() - start).toBeLessThan(5_000);
    expect((await chunksOf(backfill.name)).map(({ rows }) => rows)).toEqual([
      ...Array.from({ length: 20 }, () => 1000),
      1,
    ]);
    await db.source.query(`alter table corrections.prices reset (autovacuum_enabled)`);
  });

  test.each<[string, string, boolean]>([
    ['chunks that say it together', 'select first, last from halves', true],
    ['a row that no chunk has', 'select first, last from halves limit 1', false],
    [
      'chunks that overlap',
      'select first, last from halves union all select min(first), max(last) from halves',
      false,
    ],
  ])('seal counts and digests the log as it is, from %s', async (_what, chunks, isFromChunks) => {
    const name = await opened();
    await db.source.query(insert(name, 10));
    const { rows } = await db.source.query<{ first: string; last: string }>(
      `with halves as (
         select min(_id) as first, max(_id) as last
         from (select l._id, ntile(2) over (order by l._id) as half from corrections.prices l where l._backfill = '${name}') as r
         group by half
       )
       ${chunks}`,
    );
    for (const chunk of rows) await chunkBackfill(db.source, name, { target: 'prices', ...chunk });
    const before = await chunksOf(name);
    const { rows: held } = await db.source.query(`select from corrections._held_by_chunks($1, 'prices')`, [
      name,
    ]);
    expect(held).toHaveLength(isFromChunks ? 1 : 0);
    await sealBackfill(db.source, name);
    const { rows: log } = await db.source.query(
      `select jsonb_build_object('rows', d.rows, 'digest', d.digest::text, 'columns', d.columns)::text as sealed
       from corrections._digest_prices($1) d`,
      [name],
    );
    expect((await sealedOf(name))!.prices).toEqual(JSON.parse((log[0] as { sealed: string }).sealed));
    const asked = (await chunksOf(name)).slice(before.length).map((chunk) => Number(chunk.rows));
    expect(asked).toEqual(_what.startsWith('a row') ? [5] : []);
  });

  test('one statement writes rows of several backfills, and of none, where each of them takes them', async () => {
    const [open, closed] = [await opened(), await loaded()];
    const rows = (names: readonly (string | null)[]) => ({
      text: `insert into corrections.prices (product, valid_from, price, _backfill)
             select 'P', '2026-01-01', 1, n from unnest($1::text[]) as n`,
      values: [names],
    });
    await db.source.query(rows([open, null, closed, open]));
    await sealBackfill(db.source, closed);
    await expect(db.source.query(rows([open, null, closed]))).rejects.toThrow(/was closed at/);
    await expect(db.source.query(rows([open, 'nope']))).rejects.toThrow(/there is no backfill "nope"/);
    await sealBackfill(db.source, open);
    expect([(await sealedOf(open))!.prices!.rows, (await sealedOf(closed))!.prices!.rows]).toEqual([2, 2]);
  });

  test('a chunk whose range has gained a row since is asked for again', async () => {
    const name = await opened();
    const early = await inTransaction();
    const late = await inTransaction();
    await early.query(insert(name, 1, 1));
    await late.query(insert(name, 1, 2));
    const { rows } = await early.query<{ first: string }>(
      `with more as (${insert(name, 1, 3).text} returning _id, _backfill)
       select (select min(l._id) from corrections.prices l where l._backfill = max(m._backfill)) as first from more m`,
      insert(name, 1, 3).values,
    );
    const { rows: last } = await early.query<{ last: string }>(
      `select max(_id) as last from corrections.prices where _backfill = $1`,
      [name],
    );
    expect(await chunkBackfill(early, name, { target: 'prices', ...rows[0]!, ...last[0]! })).toBe(2);
    await early.query('commit');
    await late.query('commit');
    await sealBackfill(db.source, name);
    expect((await chunksOf(name)).map((chunk) => chunk.rows)).toEqual([2, 3]);
  });

  test('large rest is cut at 5,000 rows', async () => {
    const name = await opened();
    await db.source.query(insert(name, 12_000));
    await sealBackfill(db.source, name);
    expect((await chunksOf(name)).map((chunk) => chunk.rows)).toEqual([5000, 5000, 2000]);
  });
});
