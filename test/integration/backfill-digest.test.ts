import pg from 'pg';
import type { ClientBase } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { digestOfTexts, rowDigest, textsDigest } from '../../src/change/row-digest.ts';
import { withClient } from '../../src/db/transaction.ts';
import { sealBackfill } from '../../src/log/backfill.ts';
import { setUpBackfillSource } from '../support/backfill-source.ts';
import { planOf } from '../support/source.ts';

describe('backfills in the source', () => {
  const { databases, db, opened, sealedOf } = setUpBackfillSource('backfill digest');

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
});
