import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { ClientBase } from 'pg';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { digestOfTexts, rowDigest, textsDigest } from '../../src/change/row-digest.ts';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { withClient, withTransaction } from '../../src/db/transaction.ts';
import { correct } from '../../src/log/append.ts';
import {
  abandonBackfill,
  chunkBackfill,
  openBackfill,
  promoteBackfill,
  revertBackfill,
  sealBackfill,
} from '../../src/log/backfill.ts';
import type { BackfillOpening } from '../../src/log/backfill.ts';
import { createDatabases } from '../support/databases.ts';
import type { Databases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { createSource, planOf } from '../support/source.ts';
import type { SourceUnderTest } from '../support/source.ts';

const config = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    values: facts('public.values', { key: ['id'] }),
  },
});

describe('backfills in the source', () => {
  let databases: Databases;
  let db: SourceUnderTest;
  beforeAll(async () => {
    databases = await createDatabases('backfill source');
    db = await createSource(
      databases,
      `create type public.mood as enum ('good', 'bad');
       create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
       create table public.values (id integer not null, flag boolean, code char(5), day date, at timestamptz, span interval,
         f float8, raw bytea, doc jsonb, tags text[], mood public.mood, n numeric(10,2), range tstzrange, loose json)`,
      [
        {
          name: 'prices',
          kind: 'timeline',
          key: ['product'],
          period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
        },
        { name: 'values', kind: 'facts', key: ['id'] },
      ],
    );
    return async () => {
      await db.source.end();
      await db.store.end();
    };
  });

  let named = 0;
  const opening = (over: Partial<BackfillOpening> = {}): BackfillOpening => ({
    name: `b-${++named}`,
    targets: ['prices'],
    reason: 'contract 17',
    logicVersion: 'a1b2c3',
    ...over,
  });
  const opened = async (over: Partial<BackfillOpening> = {}): Promise<string> => {
    const backfill = opening(over);
    expect(await openBackfill(db.source, backfill)).toBe(true);
    return backfill.name;
  };
  const insert = (name: string, count = 1, from = 1) => ({
    text: `insert into corrections.prices (product, valid_from, price, _backfill)
           select 'P' || n, '2026-01-01', n, $1 from generate_series($2::integer, $3::integer) as n`,
    values: [name, from, from + count - 1],
  });
  const loaded = async (over: Partial<BackfillOpening> = {}): Promise<string> => {
    const name = await opened(over);
    await db.source.query(insert(name));
    return name;
  };
  const sealedOf = async (name: string) => {
    const { rows } = await db.source.query<{ sealed: string | null }>(
      `select sealed::text as sealed from corrections._backfill where name = $1`,
      [name],
    );
    return JSON.parse(rows[0]?.sealed ?? 'null') as Record<string, { rows: number; digest: string }> | null;
  };
  const stateOf = async (name: string) => {
    const { rows } = await db.source.query<{ state: string }>(
      `select state from corrections._backfill_state where name = $1`,
      [name],
    );
    return rows[0]?.state;
  };
  const requestsOf = async (name: string) => {
    const { rows } = await db.source.query<{ request: string }>(
      `select request from corrections._request where backfill = $1 order by _id`,
      [name],
    );
    return rows.map((row) => row.request);
  };
  const chunksOf = async (name: string) => {
    const { rows } = await db.source.query<{ details: string }>(
      `select details::text as details from corrections._request where backfill = $1 and request = 'chunk' order by _id`,
      [name],
    );
    return rows.map(
      ({ details }) => JSON.parse(details) as { target: string; first: string; last: string; rows: number },
    );
  };
  /** A connection of its own, in a transaction that stays open. */
  const inTransaction = async (): Promise<ClientBase> => {
    const client = await db.source.connect();
    await client.query('begin');
    onTestFinished(() => client.release(true));
    return client;
  };
  const untilSomebodyWaits = () =>
    eventually(async () => {
      const { rows } = await db.source.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      expect(rows.length).toBeGreaterThan(0);
    });

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

  test('rows and seal may be written in one transaction of the application, with Drizzle or pg', async () => {
    const client = new pg.Client({ connectionString: databases.sourceUrl });
    await client.connect();
    onTestFinished(() => client.end());
    const backfill = opening();
    await drizzle(client).transaction(async (tx) => {
      await openBackfill(tx, backfill);
      await correct(
        tx,
        config.targets.prices,
        { product: 'A', valid_from: '2026-01-01', price: '5' },
        { backfill: backfill.name },
      );
      await sealBackfill(tx, backfill.name, { reason: 'all there' });
      await promoteBackfill(tx, backfill.name, {
        accept: { gaps: 'none expected' },
        at: '2026-12-01 00:00:00+00',
      });
    });
    expect(await requestsOf(backfill.name)).toEqual(['chunk', 'seal', 'promote']);
    const { rows } = await db.source.query<{ details: string }>(
      `select details::text as details from corrections._request where backfill = $1 and request = 'promote'`,
      [backfill.name],
    );
    expect(JSON.parse(rows[0]!.details)).toEqual({
      ignore_window: false,
      accept: { gaps: 'none expected' },
      at: expect.stringContaining('2026-12-01') as string,
    });
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

  const settings: Record<string, string> = {
    DateStyle: 'German, DMY',
    IntervalStyle: 'iso_8601',
    TimeZone: 'Asia/Tokyo',
    extra_float_digits: '-15',
    bytea_output: 'escape',
  };

  test.each(Object.entries(settings))('the digest is the same under another %s', async (name, value) => {
    const backfill = await opened({ targets: ['values'] });
    await db.source.query(
      `insert into corrections.values values
       (1, true, 'x', '2026-02-03', '2026-02-03 04:05:06.789+00', '1 day 02:03:04', 0.1::float8 + 0.2, '\\x00ff', '{"a": 1}',
        '{a,b}', 'bad', 1.5, '[2026-01-01 00:00+00,2026-02-01 00:00+00)', '{"b":  2}')`
        .replace(
          'corrections.values values',
          `corrections.values (id, flag, code, day, at, span, f, raw, doc, tags, mood, n, range, loose, _backfill) values`,
        )
        .replace(/\)$/, `, '${backfill}')`),
    );
    const digest = (client: ClientBase) =>
      client
        .query<{ digest: string }>(`select digest::text as digest from corrections._digest_values($1)`, [
          backfill,
        ])
        .then(({ rows }) => rows[0]!.digest);
    await withClient(db.source, async (client) => {
      const before = await digest(client);
      await client.query('begin');
      await client.query(`select set_config($1, $2, true)`, [name, value]);
      expect(await digest(client)).toBe(before);
      // without the settings of the function it would not be
      await client.query('alter function corrections._digest_values reset all');
      expect(await digest(client)).not.toBe(before);
      await client.query('rollback');
    });
  });

  test('the digest is that of the texts that a reader of the log gets', async () => {
    const name = await opened({ targets: ['values'] });
    await db.source.query(
      `insert into corrections.values (id, flag, code, f, raw, n, _backfill) values (7, true, 'ab', 'NaN', 'é', 2, $1), (8, null, '\\''', 1e300, null, null, $1)`,
      [name],
    );
    const target = db.targets.find((each) => each.name === 'values')!;
    const columns = ['_id', '_op', ...[...target.key, ...target.values].map((column) => `"${column.name}"`)];
    const { rows } = await db.source.query<Record<string, string | null>>(
      `select ${columns.join(', ')} from corrections.values where _backfill = $1`,
      [name],
    );
    const { createHash } = await import('node:crypto');
    const literalOf = (value: string | null) =>
      value === null ? 'NULL' : `${value.includes('\\') ? 'E' : ''}'${value.replaceAll(/['\\]/g, '$&$&')}'`;
    const sum = rows
      .map((row) =>
        createHash('md5').update(Object.values(row).map(literalOf).join(',')).digest().readBigInt64BE(0),
      )
      .reduce((one, other) => one + other, 0n);
    await sealBackfill(db.source, name);
    expect((await sealedOf(name))!.values).toMatchObject({ rows: 2, digest: String(sum) });
  });

  test('the digest of more texts than a function takes is that of the same texts in this process', async () => {
    const some = [null, '', 'NULL', "it's", '\\', "\\'", 'é😀', 'a,b', "','"];
    const texts = Array.from({ length: 205 }, (_, n) => some[n % some.length]!);
    const given = texts.map((_, n) => `($1::text[])[${n + 1}]`);
    const { rows } = await db.source.query<{ values: string; texts: string }>(
      `select ${rowDigest(given)}::text as values, ${textsDigest(given)}::text as texts`,
      [texts],
    );
    const digest = String(digestOfTexts(texts));
    expect(rows[0]!).toEqual({ values: digest, texts: digest });
  });

  test('the digest is the same in a database of another encoding', async () => {
    const name = 'backfill_source_latin';
    await db.source.query(`create database ${name} encoding 'LATIN1' template template0 locale 'C'`);
    const url = new URL(databases.sourceUrl);
    url.pathname = `/${name}`;
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    onTestFinished(async () => {
      await client.end();
      await db.source.query(`drop database ${name}`);
    });
    const texts = ['é', null, "l'été"];
    const given = texts.map((_, n) => `$${n + 1}::text`);
    const { rows } = await client.query<{ values: string; texts: string }>(
      `select ${rowDigest(given)}::text as values, ${textsDigest(given)}::text as texts`,
      texts,
    );
    const digest = String(digestOfTexts(texts));
    expect(rows[0]!).toEqual({ values: digest, texts: digest });
  });

  test('the digest is planned again when the target has another column, and once only', async () => {
    const target = db.targets.find((each) => each.name === 'values')!;
    expect(await planOf(db, target)).toEqual([]);
    const [first, ...others] = target.values;
    const plan = await planOf(db, { ...target, values: [...others, first!] });
    expect(plan.map(({ purpose }) => purpose)).toContain('count and digest of backfills of values');
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

  test('the same opened again is no error, and another one of its name is refused with what differs', async () => {
    const backfill = opening({ boundary: { prices: { from: '2026-01-01', to: '2026-02-01' } } });
    expect(await openBackfill(db.source, backfill)).toBe(true);
    expect(await openBackfill(db.source, backfill)).toBe(false);
    await expect(openBackfill(db.source, { ...backfill, reason: 'another', boundary: {} })).rejects.toThrow(
      `there is a backfill "${backfill.name}" already, with another reason, boundary`,
    );
  });

  test.each<[string, Partial<BackfillOpening>, RegExp]>([
    ['no reason', { reason: ' ' }, /without a reason/],
    ['no logic version', { logicVersion: '' }, /without the version of the logic/],
    ['a bad name', { name: 'Not A Name' }, /cannot be the name/],
    ['no target', { targets: [] }, /has a target/],
    ['an unknown target', { targets: ['prices', 'price'] }, /there is no target "price"/],
    ['a control table', { targets: ['_request'] }, /there is no target/],
    ['a target twice', { targets: ['prices', 'prices'] }, /named twice/],
    ['a boundary of another target', { boundary: { values: { from: '1' } } }, /no target of this backfill/],
    [
      'a misspelt boundary',
      { boundary: { prices: { form: '1' } as object } },
      /boundary of "prices" cannot be read/,
    ],
  ])('open refuses %s, and says what to do', async (_what, over, message) => {
    const refused: unknown = await openBackfill(db.source, opening(over)).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'EM002', hint: expect.stringMatching(/\S/) as string });
    expect((refused as Error).message).toMatch(message);
  });

  test('what a state does not allow is refused, and asked twice is asked once', async () => {
    const why = { reason: 'wrong rule' };
    const open = await loaded();
    await expect(promoteBackfill(db.source, open)).rejects.toThrow(/is not sealed/);
    await expect(revertBackfill(db.source, open, why)).rejects.toThrow(/was never promoted/);
    await sealBackfill(db.source, open);
    await expect(revertBackfill(db.source, open, why)).rejects.toThrow(/was never promoted/);
    await promoteBackfill(db.source, open);
    await expect(revertBackfill(db.source, open, { reason: '' })).rejects.toThrow(/without a reason/);
    const asked = await revertBackfill(db.source, open, why);
    expect(await revertBackfill(db.source, open, why)).toBe(asked);
    await expect(promoteBackfill(db.source, open)).rejects.toThrow(/was asked to be reverted/);
    await expect(abandonBackfill(db.source, open, why)).rejects.toThrow(/was asked to be reverted/);
    expect(await requestsOf(open)).toEqual(['chunk', 'seal', 'promote', 'revert']);
    expect(await stateOf(open)).toBe('reverted');

    const other = await loaded();
    expect(await stateOf(other)).toBe('open');
    await abandonBackfill(db.source, other, why);
    await expect(sealBackfill(db.source, other)).rejects.toThrow(/was abandoned/);
    await expect(promoteBackfill(db.source, other)).rejects.toThrow(/is not sealed/);
    await expect(db.source.query(insert(other))).rejects.toThrow(/was closed at/);
    expect(await stateOf(other)).toBe('abandoned');
  });

  test.each<[string, () => Promise<unknown>, RegExp]>([
    ['an unknown backfill', () => sealBackfill(db.source, 'nope'), /there is no backfill "nope"/],
    ['one without rows', async () => sealBackfill(db.source, await opened()), /has no rows/],
    [
      'an acceptance without a reason',
      async () => {
        const name = await loaded();
        await sealBackfill(db.source, name);
        return promoteBackfill(db.source, name, { accept: { gaps: ' ' } });
      },
      /"gaps" is not accepted without a reason/,
    ],
    [
      'rows of a target that it is not of',
      async () =>
        db.source.query(`insert into corrections.values (id, _backfill) values (1, $1)`, [await opened()]),
      /is not of target values/,
    ],
    [
      'an import',
      async () => {
        await db.source.query(
          `insert into corrections._backfill (name, kind, targets) values ('history', 'import', '{prices}')`,
        );
        return sealBackfill(db.source, 'history');
      },
      /is an import/,
    ],
  ])('refuses %s', async (_what, ask, message) => {
    await expect(ask()).rejects.toThrow(message);
  });

  test('who asked is the role that asked, not the owner of the function', async () => {
    const role = `asker_${Date.now()}`;
    await db.source.query(
      `create role ${role};
       grant usage on schema corrections to ${role};
       grant execute on all functions in schema corrections to ${role}`,
    );
    onTestFinished(async () => {
      await db.source.query(`drop owned by ${role}; drop role ${role}`);
    });
    const name = await loaded();
    await withClient(db.source, async (client) => {
      await client.query(`set role ${role}`);
      await sealBackfill(client, name);
      await expect(
        openBackfill(client, opening({ boundary: { prices: { where: 'true' } } })),
      ).rejects.toThrow(/owner of emend's tables only/);
      await expect(openBackfill(client, opening({ checks: { mine: { sql: 'select 1' } } }))).rejects.toThrow(
        /owner of emend's tables only/,
      );
      await client.query('reset role');
    });
    const { rows } = await db.source.query(
      `select distinct _actor from corrections._request where backfill = $1`,
      [name],
    );
    expect(rows).toEqual([{ _actor: role }]);
  });
});
