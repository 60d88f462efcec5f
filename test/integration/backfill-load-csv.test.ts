import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { loadRemedy } from '../../src/backfill/load.ts';
import { readInput } from '../../src/backfill/read-rows.ts';
import { createSkipFile } from '../../src/backfill/skip-file.ts';
import { setUpFares } from '../support/fares.ts';

describe('loading a backfill', () => {
  const { db, opened, inFolder, file, load, routesOf } = setUpFares('backfill load csv');

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
    const path = inFolder('skipped-csv.ndjson');
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
});
