import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { loadRemedy } from '../../src/backfill/load.ts';
import type { LoadWork } from '../../src/backfill/load.ts';
import type { LoadItem } from '../../src/backfill/load-pieces.ts';
import { recordsOf } from '../../src/backfill/plain-lines.ts';
import { readInput } from '../../src/backfill/read-rows.ts';
import { createSkipFile } from '../../src/backfill/skip-file.ts';
import { withTransaction } from '../../src/db/transaction.ts';
import { sealBackfill } from '../../src/log/backfill.ts';
import { eventually } from '../support/eventually.ts';
import { numbers, setUpFares } from '../support/fares.ts';

const header = 'route,cabin,valid_from,price,note';
const columns = 'route, cabin, valid_from, valid_to, price, note, span, flags';

describe('lines of CSV that are written as they stand', () => {
  const fares = setUpFares('load lines');
  const { db, opened, inFolder, routesOf } = fares;
  const file = (text: string) => fares.file(text, 'csv');
  const read = (path: string) => readInput({ path, format: 'csv', remedy: loadRemedy });
  const load = (name: string, path: string, over: Partial<LoadWork> = {}) =>
    fares.load(name, path, { rows: read(path), ...over });
  const line = (n: number, over = '') => `R${n},Y,2026-01-01,${n},${over}`;
  const lines = (count: number) => Array.from({ length: count }, (_, n) => line(n + 1));
  const csv = (rows: readonly string[], head = header) => [head, ...rows].join('\n') + '\n';
  const rowsOf = async (name: string, what = columns) =>
    (await db.source.query(`select ${what} from corrections.fares where _backfill = $1 order by _id`, [name]))
      .rows as Record<string, string | null>[];
  /** Lines that came as lines, and records. */
  const readAs = async (path: string) => {
    const items: LoadItem[] = [];
    for await (const item of read(path)) items.push(item);
    return {
      lines: items.reduce((sum, item) => sum + ('text' in item ? item.rows : 0), 0),
      records: items.filter((item) => !('text' in item)).length,
    };
  };
  async function* asRecords(path: string): AsyncGenerator<LoadItem> {
    for await (const item of read(path)) {
      if ('text' in item) yield* recordsOf(item);
      else yield item;
    }
  }

  const same: [string, string, number][] = [
    ['plain', csv([line(1), line(2, 'x'), line(3)]), 3],
    ['quoted', csv(['"R1","Y","2026-01-01","1",""', 'R2,Y,2026-01-01,2,"a,""b"']), 2],
    ['backslashes and what looks like a null', csv([line(1, '\\N'), line(2, '\\\\t'), line(3, 'NULL')]), 3],
    ['blanks', csv([line(1, ' x '), line(2, '  ')]), 2],
    ['letters of other alphabets', csv([line(1, 'ßéж😀.')]), 1],
    ['without an end', `${header}\n${line(1)}\n${line(2)}`, 2],
    ['from Windows', `\uFEFF${header}\r\n${line(1)}\r\n${line(2, '"x"')}\r\n`, 2],
    ['of few columns', csv(['R1,2026-01-01,1', 'R2,2026-01-01,2'], 'route,valid_from,price'), 2],
    ['with bits and a reason', csv(['R1,2026-01-01,1,101,why'], 'route,valid_from,price,flags,_reason'), 1],
    ['with a header in quotes', csv(['R1,2026-01-01,1'], '"route","valid_from",price'), 1],
    ['of intervals with fields', csv(['R1,2026-01-01,1,5'], 'route,valid_from,price,span'), 1],
  ];

  test.each(same)('%s, they are the same rows as record by record', async (_what, text, plain) => {
    const path = file(text);
    expect(await readAs(path)).toEqual({ lines: plain, records: 0 });
    const [asLines, recordByRecord] = [await opened(), await opened()];
    expect(await load(asLines, path)).toMatchObject({ written: plain });
    await load(recordByRecord, path, { rows: asRecords(path) });
    const all = `${columns}, _op, _reason`;
    expect(await rowsOf(asLines, all)).toEqual(await rowsOf(recordByRecord, all));
    expect(await rowsOf(asLines, all)).toHaveLength(plain);
  });

  test.each<[string, string[], number[], number[]]>([
    ['a line break within quotes', ['"R3",Y,2026-01-01,3,"a\nb"'], [1, 2, 3, 4, 5], []],
    [
      'a bad record of three lines, and one behind it',
      ['', '"R3",Y,2026-01-01,much,"a\n\nb"', line(3), '"R",Y,2026-01-01,,"\n"'],
      [1, 2, 3, 4, 5],
      [5, 9],
    ],
    ['an empty line', ['', line(3)], [1, 2, 3, 4, 5], []],
    ['a line that ends the data of COPY', ['\\.', line(3)], [1, 2, 3, 4, 5], [4]],
    ['a carriage return', [`${line(3)}\r`], [1, 2, 3, 4, 5], []],
    ['a quote in the middle of quotes', ['"R3""",Y,2026-01-01,3,""', '"R"",Y,2026-01-01,9,'], [1, 2], []],
  ])('%s is left to the parser, with what follows', async (what, middle, routes, skipped) => {
    const path = file(csv([line(1), line(2), ...middle, line(4), line(5)]));
    const name = await opened();
    const skipBad = createSkipFile(inFolder(`skipped-${name}.ndjson`));
    if (what.startsWith('a quote')) {
      await expect(load(name, path, { skipBad, chunkRows: 2 })).rejects.toThrow(/cannot be read/);
    } else {
      expect((await readAs(path)).lines).toBe(2);
      await load(name, path, { skipBad });
    }
    expect(await routesOf(name)).toEqual(routes);
    const left = readFileSync(skipBad.path, 'utf8').split('\n').filter(Boolean);
    expect(left.map((each) => (JSON.parse(each) as { line: number }).line)).toEqual(skipped);
  });

  test.each([
    ['a value of another type', 'R7,Y,2026-01-01,much,', /column price: a text of 4 characters is refused/],
    ['a number that is too large', 'R7,Y,2026-01-01,1234567.5,', /column price: a number of 8 digits/],
    ['a text that is too long', 'R7,Y,2026-01-01,7,lengthy', /column note: a text of 7 characters/],
    ['a key that is too long', 'R7,YY,2026-01-01,7,', /column cabin: a text of 2 characters/],
    ['an impossible date', 'R7,Y,2026-02-30,7,', /column valid_from: a text of 10 characters/],
    ['a value that is missing', 'R7,Y,2026-01-01,,', /breaks the rule "an upsert needs price"/],
    ['a key that is missing', ',Y,2026-01-01,7,', /column route: null is refused/],
    ["a rule of the user's own", 'R7,Y,2026-01-01,-1,', /breaks the rule "fares_price_check"/],
    ['a field too many', 'R7,Y,2026-01-01,7,,', /it has 6 fields, and the header names 5/],
    ['a field too few', 'R7,Y,2026-01-01', /it has 3 fields, and the header names 5/],
  ])('%s is refused with line and rule, nothing of its chunk stays, and mended it goes on', async (...of) => {
    const [, bad, message] = of;
    const name = await opened();
    const text = csv([...lines(6), bad, line(8)]);
    const refused = (await load(name, file(text), { chunkRows: 4 }).catch(
      (error: unknown) => error,
    )) as Error;
    expect(refused).toMatchObject({ code: 'correction_invalid' });
    expect(refused.message).toMatch(/^fares, line 8: /);
    expect(refused.message).toMatch(message);
    expect(await routesOf(name)).toEqual([1, 2, 3, 4]);
    const skipBad = createSkipFile(inFolder(`skipped-${name}.ndjson`));
    const left = await opened();
    expect(await load(left, file(text), { skipBad })).toMatchObject({ read: 8, written: 7, skipped: 1 });
    expect(JSON.parse(readFileSync(skipBad.path, 'utf8'))).toMatchObject({ line: 8 });
    expect(await routesOf(left)).toEqual(numbers(8).filter((n) => n !== 7));
    expect(await load(name, file(csv(lines(8))))).toMatchObject({ read: 8, written: 4 });
    expect(await routesOf(name)).toEqual(numbers(8));
  });

  test.each([1, 2, 3])(
    'killed in chunk %i and run again, cut otherwise, each is there once',
    async (killAt) => {
      const name = await opened();
      const path = file(csv(lines(20)));
      let chunks = 0;
      const onProgress = () => {
        if (++chunks === killAt) throw new Error('killed');
      };
      await expect(load(name, path, { chunkRows: 5, onProgress })).rejects.toThrow('killed');
      expect(await load(name, path, { chunkRows: 7 })).toMatchObject({ read: 20, written: 20 - 5 * killAt });
      expect(await routesOf(name)).toEqual(numbers(20));
      expect(await load(name, path)).toMatchObject({ read: 20, written: 0 });
    },
  );

  test('however the bytes of a file come in, a load that was killed goes on where it was', async () => {
    const middle = ['"R9",Y,2026-01-01,9,"a\nb"', ...lines(12).slice(9)];
    const bytes = Buffer.from(csv([...lines(8).map((each) => `${each}é`), ...middle]));
    const stdin = Object.getOwnPropertyDescriptor(process, 'stdin')!;
    const given = (name: string, size: number, over: Partial<LoadWork> = {}) => {
      const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
        bytes.subarray(n * size, (n + 1) * size),
      );
      Object.defineProperty(process, 'stdin', { value: Readable.from(parts), configurable: true });
      return load(name, '-', over);
    };
    try {
      const name = await opened();
      let chunks = 0;
      const onProgress = () => {
        if (++chunks === 2) throw new Error('killed');
      };
      await expect(given(name, 3, { chunkRows: 5, onProgress })).rejects.toThrow('killed');
      expect(await given(name, 1_000, { chunkRows: 4 })).toMatchObject({ read: 12 });
      expect(await given(name, 1)).toMatchObject({ read: 12, written: 0 });
      expect(await routesOf(name)).toEqual(numbers(12));
    } finally {
      Object.defineProperty(process, 'stdin', stdin);
    }
  });

  test.each([
    ['another value', csv([line(1), line(9), line(3)])],
    ['a line more', csv(lines(4))],
    ['a line less', csv(lines(2))],
    ['the same under another header', csv(lines(3), 'route,cabin,valid_to,price,note')],
  ])('other content under the name of an input is refused: %s', async (_what, other) => {
    const name = await opened();
    await load(name, file(csv(lines(3))));
    await expect(load(name, file(other))).rejects.toMatchObject({ code: 'backfill_refused' });
    expect(await routesOf(name)).toEqual([1, 2, 3]);
  });

  test('fields that are no columns of the log are left out where that is said, and refused where not', async () => {
    const name = await opened();
    const path = file(csv(['R1,2026-01-01,1,red', 'R2,2026-01-01,2,blue'], 'route,valid_from,price,colour'));
    await expect(load(name, path)).rejects.toThrow(/line 1: fares has no column "colour"/);
    expect(await load(name, path, { ignore: ['colour'] })).toMatchObject({ written: 2 });
    expect(await routesOf(name)).toEqual([1, 2]);
  });

  test('an empty _op is an upsert, an empty start an open one where that is said', async () => {
    const name = await opened();
    const path = file(csv(['R1,,1,', 'R2,2026-01-01,,retract'], 'route,valid_from,price,_op'));
    await load(name, path, { openStart: true });
    expect(await rowsOf(name, 'valid_from, _op')).toEqual([
      { valid_from: '-infinity', _op: 'upsert' },
      { valid_from: '2026-01-01', _op: 'retract' },
    ]);
  });

  test('a seal waits for lines that are being written, and counts them; those after it are refused', async () => {
    const name = await opened();
    const path = file(csv(lines(10)));
    await withTransaction(db.source, async (blocker) => {
      // the lines are written, the request of their chunk is not
      await blocker.query('lock table corrections._request in share mode');
      const waiting = (count: number) =>
        eventually(async () => {
          const { rows } = await db.source.query(
            `select from pg_stat_activity a where a.datname = current_database() and a.wait_event_type = 'Lock'`,
          );
          expect(rows).toHaveLength(count);
        });
      const loading = load(name, path);
      await waiting(1);
      const sealing = sealBackfill(db.source, name);
      await waiting(2);
      await blocker.query('commit');
      expect(await loading).toMatchObject({ written: 10 });
      await sealing;
    });
    const { rows } = await db.source.query(
      `select sealed #>> '{fares,rows}' as rows,
         (sealed #>> '{fares,digest}' = (select d.digest::text from corrections._digest_fares(name) d))::text as is_right
       from corrections._backfill where name = $1`,
      [name],
    );
    expect(rows).toEqual([{ rows: '10', is_right: 'true' }]);
    await expect(load(name, file(csv(lines(3))), { input: 'late' })).rejects.toMatchObject({
      code: 'backfill_refused',
    });
    expect(await routesOf(name)).toEqual(numbers(10));
  });
});
