import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { createSkipFile } from '../../src/backfill/skip-file.ts';
import { fare, fares, lines, numbers, setUpFares } from '../support/fares.ts';

describe('loading a backfill', () => {
  const { opened, inFolder, file, load, routesOf } = setUpFares('backfill load bad');

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
    const path = inFolder('skipped.ndjson');
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
    const skipBad = createSkipFile(inFolder('nowhere/bad.ndjson'));
    await expect(load(await opened(), file(lines([fare(1)])), { skipBad })).rejects.toMatchObject({
      code: 'bad_arguments',
    });
  });

  test('killed while it sets lines aside and run again, each stands in the file once', async () => {
    const name = await opened();
    const path = inFolder('killed.ndjson');
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
});
