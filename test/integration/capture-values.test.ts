import { expect, test } from 'vitest';
import {
  accepted,
  columnOf,
  createSource,
  idsOf,
  startReader,
  streaming,
} from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { planPublication } from '../../src/capture/publication.ts';

/** Type, text that is written, text that has to arrive (left out: the same). */
const values: readonly (readonly [type: string, written: string | null, arrives?: string])[] = [
  ['timestamptz', 'infinity'],
  ['timestamptz', '2026-09-10 12:00:00.123456+02', '2026-09-10 10:00:00.123456+00'],
  ['timestamptz', '0044-03-15 12:00:00+00 BC'],
  ['timestamp', '294276-12-31 23:59:59.999999'],
  ['date', '-infinity'],
  ['date', '4713-01-01 BC'],
  ['interval', '1 year 2 mons -3 days +04:05:06.789', '1 year 2 mons -3 days +04:05:06.789'],
  ['numeric', '1234567890123456789012345678901234567890.0123456789'],
  ['numeric', 'NaN'],
  ['numeric(10,2)', '5.00'],
  ['float8', '0.1'],
  ['float8', '-0'],
  ['float4', '3.4028235e+38'],
  ['bigint', '9223372036854775807'],
  ['text', ''],
  ['text', null],
  ['text', 'null'],
  ['text', '\u{feff}a byte order mark in front'],
  ['text', 'tab\t newline\n quote\' " \\ \u{1f600} \u{301}'],
  ['char(5)', 'ab', 'ab   '],
  [
    'jsonb',
    '{"n": 12345678901234567890.123, "t": null, "s": "\\u00e9"}',
    '{"n": 12345678901234567890.123, "s": "é", "t": null}',
  ],
  ['jsonb', 'null'],
  ['json', '{"b":1,  "a":1,"a":2}'],
  ['bytea', '\\x00ff5c27'],
  ['boolean', 'true', 't'],
  ['uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
  ['text[]', '{a,NULL,"NULL","",{}}'.replace(',{}', ''), '{a,NULL,"NULL",""}'],
  ['int4range', '[1,5)'],
  ['corrections.mood', 'sad or not'],
];

test('every value arrives as the text that the server wrote, whatever the database has set', async () => {
  const { sourceUrl } = await createDatabases('capture values');
  const source = await createSource(sourceUrl);
  await source.db.query(`create type corrections.mood as enum ('ok', 'sad or not')`);
  const columns = values.map(([type], i) => `v${i} ${type}`);
  await source.db.query(
    `create table corrections.odd (_id bigint not null, _backfill text, ${columns.join(', ')})`,
  );
  for (const { sql } of await planPublication(source.db, {
    publication: source.publication,
    targets: ['odd'],
  })) {
    await source.db.query(sql);
  }
  const settings = {
    datestyle: 'SQL, DMY',
    intervalstyle: 'iso_8601',
    timezone: 'Asia/Kathmandu',
    extra_float_digits: '-10',
    bytea_output: 'escape',
    client_encoding: 'LATIN1',
    search_path: 'corrections',
    statement_timeout: '300',
    client_min_messages: 'error',
  };
  for (const [name, value] of Object.entries(settings)) {
    await source.db.query(
      `do $$ begin execute format('alter database %I set ${name} = ''${value}''', current_database()); end $$`,
    );
  }
  const reader = startReader(source, { targets: ['odd'] });
  await streaming(reader);
  const writer = await source.connect();
  await writer.query(
    `set client_encoding = 'UTF8'; set datestyle = 'ISO'; set timezone = 'UTC'; set statement_timeout = 0`,
  );
  await writer.query(
    `insert into corrections.odd values (1, null, ${values.map(([type], i) => `$${i + 1}::text::${type}`).join(', ')})`,
    values.map(([, written]) => written),
  );
  await writer.end();
  await accepted(reader, ['1']);
  const batch = reader.batches[0]!;
  const got = values.map((_, i) => columnOf(batch, `v${i}`)[0]);
  expect(got).toEqual(values.map(([, written, arrives]) => arrives ?? written));
});

test('a column added while streaming arrives with the rows that have it', async () => {
  const source = await createSource((await createDatabases('capture column')).sourceUrl);
  const reader = startReader(source);
  await streaming(reader);
  const before = await source.insert(2);
  await source.db.query(`alter table corrections.prices add column currency text not null default 'EUR'`);
  const after = await source.insert(2);
  await accepted(reader, [...before, ...after]);
  const withColumn = reader.batches.flatMap((batch) =>
    batch.parts
      .filter((part) => part.columns.includes('currency'))
      .flatMap((part) => idsOf({ ...batch, parts: [part] })),
  );
  expect(withColumn).toEqual(after);
});

test('rows of a backfill stay out of the stream', async () => {
  const source = await createSource((await createDatabases('capture backfill')).sourceUrl);
  const reader = startReader(source);
  await streaming(reader);
  await source.db.query(
    `insert into corrections.prices (product_id, valid_from, valid_to, _backfill) values ('A', '-infinity', 'infinity', 'b1')`,
  );
  const live = await source.insert(1);
  await accepted(reader, live);
  expect(reader.ids()).toEqual(live);
});

test('the logs of one transaction arrive in one batch', async () => {
  const source = await createSource((await createDatabases('capture together')).sourceUrl);
  await source.db.query('create table corrections.orders (like corrections.prices including defaults)');
  const targets = ['prices', 'orders'];
  for (const { sql } of await planPublication(source.db, { publication: source.publication, targets }))
    await source.db.query(sql);
  const reader = startReader(source, { targets });
  await streaming(reader);
  await source.db.query('begin');
  const ids = await source.insert(1);
  const { rows } = await source.db.query<{ _id: string }>(
    `insert into corrections.orders (product_id, valid_from, valid_to) values ('A', '-infinity', 'infinity') returning _id::text`,
  );
  await source.db.query('commit');
  await accepted(reader, [...ids, rows[0]!._id]);
  expect(reader.batches).toHaveLength(1);
  expect(reader.batches[0]!.parts.map((part) => part.target)).toEqual(targets);
});
