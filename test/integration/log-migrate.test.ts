import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { pendingMigrations } from '../../src/db/migrations.ts';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { createDatabases } from '../support/databases.ts';
import { apply, createSource, migrateLog, planOf, readTargets } from '../support/source.ts';
import type { Declaration, SourceUnderTest } from '../support/source.ts';

const items: Declaration = {
  name: 'items',
  kind: 'timeline',
  key: ['id'],
  period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
};

const itemsDdl = `create table public.items (
  id integer not null, valid_from date not null, valid_to date not null, price numeric(10, 2) not null, note text
)`;

/** A source with the log of `items`; each test changes the target's table and migrates again. */
async function createItems(ddl = itemsDdl, options = {}, declaration = items): Promise<SourceUnderTest> {
  const db = await createSource(await createDatabases('log migrate', options), ddl, [declaration]);
  onTestFinished(() => Promise.all([db.source.end(), db.store.end()]).then(() => undefined));
  return db;
}

async function change(db: SourceUnderTest, sql: string, declaration = items) {
  await db.store.query(sql);
  const [target] = await readTargets(db.store, [declaration]);
  return target!;
}

async function migrateAgain(db: SourceUnderTest, sql: string, declaration = items): Promise<string[]> {
  const statements = await migrateLog(db, await change(db, sql, declaration));
  expect(await planOf(db, (await readTargets(db.store, [declaration]))[0]!)).toEqual([]);
  return statements.map((statement) => statement.sql);
}

describe('a log follows its target', () => {
  test.each([
    ['two databases', {}],
    ['one database', { sameDatabase: true }],
  ])('migrating twice changes nothing the second time, in %s', async (_, options) => {
    const db = await createItems(undefined, options);
    expect(await planOf(db, db.targets[0]!)).toEqual([]);
  });

  test('planning changes nothing, not even where nothing was ever migrated', async () => {
    const databases = await createDatabases('log print');
    const source = createPool({ url: databases.sourceUrl, applicationName: 'emend test' });
    const store = createPool({ url: databases.storeUrl, applicationName: 'emend test' });
    onTestFinished(() => Promise.all([source.end(), store.end()]).then(() => undefined));
    await store.query(`create type public.mood as enum ('a'); alter type public.mood add value 'b'`);
    await store.query(itemsDdl.replace('note text', 'note public.mood[]'));
    const [target] = await readTargets(store, [items]);
    await source.query(
      `alter database ${databases.sourceUrl.split('/').at(-1)} set default_transaction_read_only = on`,
    );
    await withClient(source, (client) => client.query('set default_transaction_read_only = on'));
    const statements = [
      ...(await withClient(source, (client) => pendingMigrations(client, 'source'))),
      ...(await planOf({ source, store }, target!)),
    ];
    expect(statements.map(({ sql }) => sql).join(';\n')).toMatch(
      /create schema corrections.*create type public.mood.*create table "corrections"."items"/s,
    );
    const { rows } = await source.query(
      `select to_regnamespace('corrections') as schema, to_regtype('public.mood') as type`,
    );
    expect(rows).toEqual([{ schema: null, type: null }]);
  });

  test('a new nullable column and a new column with a default are added, and rows of before stay', async () => {
    const db = await createItems();
    await db.source.query(
      `insert into corrections.items (id, valid_from, price) values (1, '2026-01-01', 1)`,
    );
    await migrateAgain(
      db,
      `alter table public.items add column size text, add column "Größe" integer not null default 7`,
    );
    const { rows } = await db.source.query('select id, price, size, "Größe" from corrections.items');
    expect(rows).toEqual([{ id: '1', price: '1.00', size: null, Größe: '7' }]);
  });

  test('a new rule holds for new rows only', async () => {
    const db = await createItems();
    const insert = `insert into corrections.items (id, valid_from, price) values (1, '2026-01-01', 1)`;
    await db.source.query(insert);
    await migrateAgain(
      db,
      `alter table public.items add constraint dear check (price > 5), alter column note set not null`,
    );
    await expect(db.source.query(insert)).rejects.toThrow('"an upsert needs note"');
    await migrateAgain(db, `alter table public.items alter column note drop not null`);
    await expect(db.source.query(insert)).rejects.toThrow('"dear"');
    await migrateAgain(
      db,
      `alter table public.items drop constraint dear, add constraint dear check (price < 5)`,
    );
    await db.source.query(insert);
    await migrateAgain(db, `alter table public.items drop constraint dear`);
  });

  test('a constraint that somebody else added to the log stays', async () => {
    const db = await createItems();
    await db.source.query(`alter table corrections.items add constraint mine check (id > 0)`);
    expect(await planOf(db, db.targets[0]!)).toEqual([]);
  });

  test('a changed default is changed', async () => {
    const db = await createItems();
    await migrateAgain(db, `alter table public.items alter column note set default 'x'`);
    expect(await migrateAgain(db, `alter table public.items alter column note drop default`)).toContain(
      'alter table "corrections"."items" alter column "note" drop default',
    );
  });

  test.each<[what: string, sql: string, message: RegExp, remedy: string]>([
    [
      'a changed type',
      `alter table public.items alter column price type numeric(12, 2)`,
      /"price" of the log is numeric\(10,2\), and the target needs numeric\(12,2\)/,
      'alter table "corrections"."items" alter column "price" type numeric(12,2);',
    ],
    [
      'a dropped column',
      `alter table public.items drop column note`,
      /columns that the target does not state: "note"/,
      'alter table "corrections"."items" drop column "note";',
    ],
    [
      'a new column without a value for recorded rows',
      `alter table public.items add column size text not null`,
      /"size" is new, takes no null and has no default/,
      'alter table "corrections"."items" add column "size" text;',
    ],
  ])('%s is refused, with the statement to run by hand', async (_, sql, message, remedy) => {
    const db = await createItems();
    const target = await change(db, sql);
    await expect(planOf(db, target)).rejects.toMatchObject({
      code: 'migration_destructive',
      message: expect.stringMatching(message) as string,
      remedy: expect.stringContaining(remedy) as string,
    });
    await db.source.query(remedy);
  });

  test('another key is refused', async () => {
    const db = await createItems();
    const target = await change(db, `alter table public.items alter column note set not null`, {
      ...items,
      key: ['id', 'note'],
    });
    await expect(planOf(db, target)).rejects.toMatchObject({ code: 'migration_destructive' });
  });

  test('a table of that name that is no log is refused', async () => {
    const db = await createItems();
    await db.source.query(`create table corrections.goods (id integer)`);
    await db.store.query(`create table public.goods (id integer not null)`);
    const [target] = await readTargets(db.store, [{ name: 'goods', kind: 'facts', key: ['id'] }]);
    await expect(planOf(db, target!)).rejects.toMatchObject({ code: 'target_invalid' });
  });

  test('a default that calls a function of the store alone is refused by the name of the function', async () => {
    const db = await createItems();
    await db.store.query(`create function public.fresh() returns text language sql as $$ select 'x' $$`);
    const target = await change(db, `alter table public.items add column tag text default public.fresh()`);
    await expect(planOf(db, target)).rejects.toMatchObject({
      code: 'target_invalid',
      problems: [{ problem: 'a default calls public.fresh(), which the source does not have' }],
    });
  });

  test('names of any kind and length make a log', async () => {
    const long = 'n'.repeat(63);
    const db = await createItems(
      `create table public.items (id integer not null, valid_from date not null, valid_to date not null,
         "${long}" text not null, "${long.slice(1)}x" text not null, "a""b; drop table x;--" text not null,
         constraint "c'${long.slice(2)}" check (id > 0))`,
    );
    const insert = `insert into corrections.items (id, valid_from, "${long}", "${long.slice(1)}x") values (1, '2026-01-01', 'a', 'b')`;
    await expect(db.source.query(insert)).rejects.toThrow('an upsert needs a"b; drop table x;--');
  });
});

describe('types of the target', () => {
  const ddl = `
    create schema app;
    create type app.color as enum ('red', 'green');
    create domain app.email as text collate "C" default 'a@b' check (value like '%@%');
    create domain app.work_email as app.email not null;
    create type app.size as (w numeric(5, 1), c app.color);
    create type app.span as range (subtype = numeric, multirange_type_name = app.spans);
    create extension citext with schema app;
    create table public.items (id app.work_email, valid_from date not null, valid_to date not null,
      color app.color[] not null default '{red}', mail app.work_email, size app.size, spans app.spans, name app.citext)`;

  test('are made in the source, and values pass through them', async () => {
    const db = await createItems(ddl);
    const { rows } = await db.source.query(
      `insert into corrections.items (id, valid_from, mail, size, spans, name)
       values ('X@y', '2026-01-01', 'x@y', '(1.5,green)', '{[1,2),[3,)}', 'Name') returning id, color, mail, size, spans, name`,
    );
    expect(rows).toEqual([
      { id: 'X@y', color: '{red}', mail: 'x@y', size: '(1.5,green)', spans: '{[1,2),[3,)}', name: 'Name' },
    ]);
    await db.source.query(
      `insert into corrections.items (id, valid_from, _op) values ('x@y', '2026-01-01', 'retract')`,
    );
    await expect(
      db.source.query(
        `insert into corrections.items (id, valid_from, mail) values ('x@y', '2026-01-01', 'nobody')`,
      ),
    ).rejects.toThrow('value for domain app.work_email violates');
  });

  test('gain the labels that the store gains, in their places', async () => {
    const db = await createItems(ddl);
    await db.store.query(`alter type app.color add value 'amber' after 'red'`);
    await db.store.query(`alter type app.color add value 'black' before 'red'`);
    await db.store.query(`alter type app.color add value 'blue'`);
    await migrateAgain(db, 'select 1');
    const { rows } = await db.source.query(`select enum_range(null::app.color)::text as labels`);
    expect(rows).toEqual([{ labels: '{black,red,amber,green,blue}' }]);
  });

  test.each([
    [
      'a label that the store lacks',
      `alter type app.color add value 'pink'`,
      'has labels that the store lacks: pink',
    ],
    ['another rule', `alter domain app.email add check (value <> '')`, 'is not that of the store'],
  ])('are refused when the source has %s', async (_, sql, message) => {
    const db = await createItems(ddl);
    await db.source.query(sql);
    await expect(planOf(db, db.targets[0]!)).rejects.toThrow(message);
  });
});

describe('fixed migrations', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'emend-migrations-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  async function migratedSource() {
    const databases = await createDatabases('migrations');
    const pool = createPool({ url: databases.sourceUrl, applicationName: 'emend test' });
    onTestFinished(() => pool.end());
    const own = join(folder, String(Math.random()));
    cpSync(new URL('../../drizzle/source', import.meta.url), own, { recursive: true });
    const pending = () => withClient(pool, (client) => pendingMigrations(client, 'source', own));
    await apply(pool, await pending());
    expect(await pending()).toEqual([]);
    return { pool, own, pending };
  }

  function addFile(own: string, tag: string, at: 'first' | 'last') {
    writeFileSync(
      join(own, `${tag}.sql`),
      'create table corrections._more ();\n--> statement-breakpoint\nselect 1',
    );
    const path = join(own, 'meta/_journal.json');
    const journal = JSON.parse(readFileSync(path, 'utf8')) as { entries: object[] };
    const entry = { idx: 1, version: '7', when: 1, tag, breakpoints: true };
    journal.entries = at === 'first' ? [entry, ...journal.entries] : [...journal.entries, entry];
    writeFileSync(path, JSON.stringify(journal));
  }

  test('a new file is applied once, whatever its date', async () => {
    const { pool, own, pending } = await migratedSource();
    addFile(own, '0009_more', 'last');
    await apply(pool, await pending());
    expect(await pending()).toEqual([]);
    const { rows } = await pool.query('select tag from corrections._migration order by number');
    expect(rows.at(0)).toEqual({ tag: '0000_source' });
    expect(rows.at(-1)).toEqual({ tag: '0009_more' });
  });

  test('an edited file is refused', async () => {
    const { own, pending } = await migratedSource();
    writeFileSync(join(own, '0000_source.sql'), 'select 1');
    await expect(pending()).rejects.toThrow('0000_source was edited after it was applied');
  });

  test('a file that should have come before is refused', async () => {
    const { own, pending } = await migratedSource();
    addFile(own, '0000_before', 'first');
    await expect(pending()).rejects.toThrow('0000_before was never applied');
  });

  test('a database of a newer emend is refused', async () => {
    const { pool, pending } = await migratedSource();
    await pool.query(`insert into corrections._migration (tag, hash) values ('0007_future', 'x')`);
    await expect(pending()).rejects.toMatchObject({
      code: 'migration_conflict',
      message: expect.stringContaining('a newer emend') as string,
    });
  });

  test('an install has one id for ever', async () => {
    const { pool } = await migratedSource();
    const { rows } = await pool.query<{ id: string }>('select id from corrections._install');
    expect(rows[0]?.id).toMatch(/^[0-9a-f]{8}$/);
    await expect(pool.query('insert into corrections._install default values')).rejects.toThrow('unique');
  });
});
