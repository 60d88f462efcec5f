import { createReadStream, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importHistory } from '../../src/backfill/import-history.ts';
import { readRows } from '../../src/backfill/read-rows.ts';
import { facts, timeline } from '../../src/config/define-config.ts';
import { withClient } from '../../src/db/transaction.ts';
import { isEmendError } from '../../src/errors.ts';
import { tick } from '../../src/store/clock.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const data = (file: string) => new URL(`../../examples/currency/data/${file}`, import.meta.url).pathname;

interface Question {
  readonly q: number;
  readonly key: { readonly region: string; readonly currency: string };
  readonly valid_at: string;
  readonly known_at: string;
  readonly answer: Record<string, unknown> | null;
}

describe('importing history that was known before', () => {
  let install: Install;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'emend-import-'));
    const columns = `region text not null, currency text not null, valid_from date not null, valid_to date not null, tender boolean, tz text, to_tz text`;
    const target = (table: string) =>
      timeline(table, { key: ['region', 'currency'], period: ['valid_from', 'valid_to'] });
    install = await createInstall('import', {
      ddl: `create table public.tender (${columns}); create table public.other (${columns});
        create table public.documents (id integer not null, doc jsonb)`,
      targets: {
        tender: target('public.tender'),
        other: target('public.other'),
        documents: facts('public.documents', { key: ['id'] }),
      },
    });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const importFile = (path: string, over: Partial<Parameters<typeof importHistory>[0]> = {}) =>
    importHistory({
      source: install.source,
      store: install.store,
      target: install.targets[0]!,
      name: 'cldr',
      digest: 'd1',
      rows: readRows(path),
      file: path,
      knownAtColumn: 'released_at',
      ignore: ['seq', 'release'],
      openStart: true,
      ...over,
    });

  it('answers all 300 questions as they would have been answered then', async () => {
    expect(await importFile(data('corrections.ndjson.gz'))).toEqual({
      name: 'cldr',
      rows: 567,
      times: 15,
      taken: 567,
    });
    await withClient(install.store, tick);
    const lines = createInterface({ input: createReadStream(data('asof.ndjson')) });
    let asked = 0;
    for await (const line of lines) {
      const { q, key, valid_at, known_at, answer } = JSON.parse(line) as Question;
      // the future is not settled: then the present is what is known
      const known = known_at > new Date().toISOString() ? 'emend.settled()' : `$4::timestamptz`;
      const { rows } = await install.store.query<{ answer: string }>(
        `select jsonb_build_object('tender', tender, 'tz', tz, 'to_tz', to_tz)::text as answer
         from emend.tender_at($3::date, ${known}) where region = $1 and currency = $2`,
        [key.region, key.currency, valid_at, ...(known.startsWith('$') ? [known_at] : [])],
      );
      expect(rows[0] ? JSON.parse(rows[0].answer) : null, `question ${q}`).toEqual(answer);
      asked++;
    }
    expect(asked).toBe(300);
  });

  it('changes nothing when it is run again', async () => {
    const count = () =>
      install.store.query(
        `select (select count(*) from emend.ledger) as ledger, (select count(*) from emend.tender_told) as told`,
      );
    const before = await count();
    expect((await importFile(data('corrections.ndjson.gz'))).taken).toBe(0);
    expect((await count()).rows).toEqual(before.rows);
  });

  it('goes on where it was killed between two times', async () => {
    const target = install.targets[1]!;
    const killed = importFile(data('corrections.ndjson.gz'), {
      target,
      name: 'other',
      onProgress: ({ merged }) => {
        if (merged > 500) throw new Error('killed');
      },
    });
    await expect(killed).rejects.toThrow('killed');
    const { rows, taken } = await importFile(data('corrections.ndjson.gz'), { target, name: 'other' });
    expect([rows, taken > 0 && taken < 567]).toEqual([567, true]);
    const periods = await install.store.query(
      `select (select count(*) from emend.other_periods) as other, (select count(*) from emend.tender_periods) as tender`,
    );
    expect(periods.rows[0]).toEqual({ other: '507', tender: '507' });
  });

  it.each([
    [
      'a time that is not in the past',
      '{"known_at":"2222-01-01","region":"X","currency":"Y","valid_from":"2020-02-01"}',
      /bad\.ndjson, line 2: its known_at is not in the past/,
    ],
    [
      'an earlier time after a later one',
      '{"known_at":"2021-01-01","k":1}',
      /bad\.ndjson, line 2: its known_at is earlier/,
    ],
    [
      'a value that its column cannot hold',
      '{"known_at":"2023-01-01","region":"X","currency":"Y","valid_from":"2020-13-01"}',
      /line 2: .*date/,
    ],
    [
      'a period that ends before it begins',
      '{"known_at":"2023-01-01","region":"X","currency":"Y","valid_from":"2020-02-01","valid_to":"2020-01-01"}',
      /line 2: /,
    ],
    [
      'a column that the target lacks',
      '{"known_at":"2023-01-01","region":"X","currency":"Y","valid_from":"2020-02-01","colour":"red"}',
      /bad\.ndjson, line 2: tender has no column "colour"/,
    ],
    [
      'an object for a column of text',
      '{"known_at":"2023-01-01","region":{"x":1},"currency":"Y","valid_from":"2020-02-01"}',
      /line 2: column region: it is a JSON object, and the column is not json/,
    ],
    ['what is no JSON', '{"known_at":', /bad\.ndjson, line 2: it cannot be read/],
  ])('refuses %s, says the line, and takes nothing', async (_what, second, message) => {
    const file = join(folder, `bad.ndjson`);
    writeFileSync(
      file,
      `{"known_at":"2022-01-01","region":"X","currency":"Y","valid_from":"2020-01-01"}\n${second}\n`,
    );
    await install.store.query(`truncate emend.ledger_recent, emend.merge`);
    const refused: unknown = await importFile(file, {
      name: 'bad',
      knownAtColumn: 'known_at',
      ignore: ['k'],
    }).catch((error: unknown) => error);
    expect(isEmendError(refused)).toBe(true);
    expect((refused as Error).message).toMatch(message);
    const { rows } = await install.source.query(
      `select count(*) from corrections.tender where _backfill = 'bad'`,
    );
    expect(rows).toEqual([{ count: '0' }]);
  });

  const header = 'known_at,region,currency,valid_from,tz';
  const row = '2022-01-01,X,Y,2020-01-01,';
  it.each<[what: string, file: string, content: string | Buffer, message: RegExp, remedy: RegExp]>([
    ['an empty file', 'a.ndjson', '', /a\.ndjson holds no correction/, /a JSON object/],
    ['a file of blank lines', 'a.ndjson', '\n \n', /holds no correction/, /a JSON object/],
    ['a header alone', 'a.csv', `${header}\n`, /holds no correction/, /names of the columns/],
    ['an empty packed file', 'a.csv.gz', gzipSync(''), /holds no correction/, /names of the columns/],
    ['a packed file by its name only', 'a.csv.gz', `${header}\n${row}`, /cannot be unpacked/, /gzip/],
    [
      'a packed file that is cut',
      'a.csv.gz',
      gzipSync(`${header}\n${row}`).subarray(0, 40),
      /cannot be unpacked/,
      /gzip/,
    ],
    ['a packed file without its ending', 'a.csv', gzipSync(header), /is not text in UTF-8/, /\.gz/],
    [
      'a binary file',
      'a.ndjson',
      Buffer.from([0, 1, 2, 255, 10, 0]),
      /is not text in UTF-8/,
      /NDJSON or CSV/,
    ],
    ['Latin-1', 'a.csv', Buffer.from(`${header}\n${row}Zürich\n`, 'latin1'), /is not text in UTF-8/, /UTF-8/],
    [
      'a text that is cut within a character',
      'a.csv',
      Buffer.from(`${header}\n${row}ü`).subarray(0, -1),
      /is not text/,
      /UTF-8/,
    ],
    [
      'a row with too few fields',
      'a.csv',
      `${header}\n${row}\n2022-01-01,X,Y\n`,
      /a\.csv, line 3: it has 3 fields, and the header names 5/,
      /Mend/,
    ],
    ['a row with too many', 'a.csv', `${header}\n${row},\n`, /line 2: it has 6 fields/, /Mend/],
    [
      'a column that is named twice',
      'a.csv',
      `${header},tz\n${row},a\n`,
      /line 1: the header names column "tz" twice/,
      /Mend/,
    ],
    [
      'a quote without an end',
      'a.csv',
      `${header}\n${row}"a\n`,
      /a\.csv, line 2: it cannot be read: Quote/,
      /Mend/,
    ],
  ])(
    'refuses %s, says what was expected, and takes nothing',
    async (_what, name, content, message, remedy) => {
      const file = join(folder, name);
      writeFileSync(file, content);
      await install.store.query(`truncate emend.ledger_recent, emend.merge`);
      const refused: unknown = await importFile(file, { name: 'no-rows', knownAtColumn: 'known_at' }).catch(
        (error: unknown) => error,
      );
      expect(refused).toMatchObject({
        code: 'correction_invalid',
        message: expect.stringMatching(message) as string,
        remedy: expect.stringMatching(remedy) as string,
      });
      const { rows } = await install.source.query(`select from corrections._backfill where name = 'no-rows'`);
      expect(rows).toEqual([]);
    },
  );

  it('takes a CSV with a byte order mark and blank lines', async () => {
    const file = join(folder, 'marked.csv');
    writeFileSync(file, `\uFEFF${header}\n\n${row}Zürich\n\n`);
    await install.store.query(`truncate emend.ledger_recent, emend.merge`);
    const imported = await importFile(file, { name: 'marked', knownAtColumn: 'known_at' });
    expect(imported).toMatchObject({ rows: 1, taken: 1 });
    const { rows } = await install.source.query(
      `select tz from corrections.tender where _backfill = 'marked'`,
    );
    expect(rows).toEqual([{ tz: 'Zürich' }]);
  });

  it('takes a JSON object into a json column, and leaves out one that is ignored', async () => {
    const file = join(folder, 'documents.ndjson');
    writeFileSync(file, `{"known_at":"2022-01-01","id":1,"doc":{"x":[1.50]},"extra":{"y":1}}\n`);
    await install.store.query(`truncate emend.ledger_recent, emend.merge`);
    await importFile(file, {
      name: 'documents',
      knownAtColumn: 'known_at',
      target: install.targets[2]!,
      ignore: ['extra'],
    });
    const { rows } = await install.source.query(`select id, doc from corrections.documents`);
    expect(rows).toEqual([{ id: '1', doc: '{"x": [1.50]}' }]);
  });

  it('refuses a target that has live corrections', async () => {
    await install.start();
    await install.source.query(
      `insert into corrections.tender (region, currency, valid_from) values ('ZZ', 'XXX', '2020-01-01')`,
    );
    await install.wait();
    await expect(importFile(data('corrections.ndjson.gz'), { name: 'late' })).rejects.toThrow(
      /has corrections already/,
    );
  });
});
