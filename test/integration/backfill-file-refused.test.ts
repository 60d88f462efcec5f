import { mkdirSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { september, setUpBackfillFiles } from '../support/backfill-file.ts';

describe('a backfill file', () => {
  const { install, inFolder, write, fresh, named, run, ts } = setUpBackfillFiles('backfill file refused');
  beforeAll(() => mkdirSync(inFolder('folder.csv')));
  const opened = async () =>
    (await install.source.query(`select name from corrections._backfill where name = $1`, [named()])).rows
      .length;

  it.each<[string, string, RegExp]>([
    ['a function that throws', `() => { throw new Error('no price of R9') }`, /\.ts: .*no price of R9$/],
    ['a function that gives no rows', `() => []`, /has no rows/],
    ['a function that gives nothing', `async () => {}`, /gives nothing, and no rows$/],
    ['a function that gives a text', `() => 'rows.csv'`, /gives a string, and no rows$/],
    ['a row that is no object', `() => [null]`, /row 1 of the program is not an object/],
    ['a select that cannot be run', `{ sql: 'selec 1', on: 'source' }`, /cannot be run in the source/],
    ['two selects', `{ sql: 'select 1; select 2', on: 'store' }`, /cannot be run in the store/],
    ['a select of no rows', `{ sql: 'select 1 as price where false' }`, /gives no row/],
    ['a column that is not there', `{ sql: 'select 1 as prize' }`, /prize/],
    ['a value that is refused', `() => [{ route: 'R9', valid_from: 'soon', price: 1 }]`, /column valid_from/],
    ['a file that is missing', `{ file: 'gone.csv' }`, /there is no file/],
    ['a file that is a folder', `{ file: 'folder.csv' }`, /folder.csv is a folder$/],
    ['a file that is a folder, by its name too', `{ file: 'folder.csv/' }`, /folder.csv is a folder$/],
  ])('that was refused for %s can be mended and run under the same name', async (_case, rows, message) => {
    const path = ts(`rows: ${rows}`);
    await expect(run(path)).rejects.toMatchObject({
      message: expect.stringMatching(message) as string,
      disposition: 'refuse',
    });
    expect(await opened()).toBe(0);
    const mended = `export default { targets: ['fares'], reason: 'mended', logicVersion: 'v1', rows: () => [${september('R9', 190)}] }`;
    // this process has the old module, and would write its rows under the name of the new one
    write(`${named()}.ts`, mended);
    await expect(run(path)).rejects.toThrow(/changed since this process loaded it/);
    expect(await run(write(`${named()}.mjs`, mended))).toMatchObject({ state: 'checked', problem: null });
  });

  it.each<[string, string, string, RegExp[]]>([
    [
      'that accepts a check which is none',
      'ts',
      `export default { targets: ['fares'], reason: 'x', rows: () => [], accept: { outside_boundry: 'y' } }`,
      [/accept.outside_boundry: is no check of this backfill.*outside_boundary/],
    ],
    [
      'with misspelt options',
      'ts',
      `export default { target: ['fares'], reason: ' ', rows: () => [] }`,
      [/target: .*not an option/, /targets: is missing/, /reason: /],
    ],
    [
      'with a boundary of another target',
      'ts',
      `export default { targets: ['fares'], reason: 'x', boundary: { sales: {} }, rows: () => [] }`,
      [/boundary.sales/],
    ],
    ['without rows', 'ts', `export default { targets: ['fares'], reason: 'x' }`, [/rows: is missing/]],
    ['that exports nothing', 'ts', `export const a = 1`, [/exports nothing by default/]],
    [
      'in SQL with a misspelt header',
      'sql',
      `-- target: fares\n-- reason: x\n-- form: 2026-01-01\nselect 1`,
      [/line 3: form is not known.*from\?/],
    ],
    [
      'in SQL with a comment in its header',
      'sql',
      `-- target: fares\n-- reason: x\n-- the rows\nselect 1`,
      [/line 3/],
    ],
    ['in SQL without a select', 'sql', `-- target: fares\n-- reason: x\n`, [/select: is missing/]],
    [
      'of an unknown target',
      'ts',
      `export default { targets: ['fare'], reason: 'x', logicVersion: 'v', rows: () => [] }`,
      [/Did you mean fares/],
    ],
    [
      'without a version of its logic',
      'ts',
      `export default { targets: ['fares'], reason: 'x', rows: () => [] }`,
      [/no git commit here/],
    ],
    [
      'with a check that cannot be run',
      'ts',
      `export default { targets: ['fares'], reason: 'x', logicVersion: 'v', rows: () => [], checks: { sql: { a: 'select * from fares' } } }`,
      [/checks.sql.a: .*does not exist/],
    ],
    [
      'with samples that compare nothing',
      'ts',
      `export default { targets: ['fares'], reason: 'x', logicVersion: 'v', rows: () => [], checks: { samples: [{ key: { rout: 'A' }, values: { prize: 1 } }] } }`,
      [/key: is not the key/, /validAt: is missing/, /prize: is no column/],
    ],
    [
      'with samples that are none',
      'ts',
      `export default { targets: ['fares'], reason: 'x', logicVersion: 'v', rows: () => [], checks: { samples: ['a', { key: { route: 'A' }, valid_at: '2026-09-15' }, { route: ['A'], price: undefined }] } }`,
      [
        /samples\[0\]: is a string.*\{ route: 'AMS-JFK', valid_at: /,
        /samples\[1\].valid_at: .*validAt/,
        /samples\[1\].values: is missing/,
        /samples\[2\].route: is a list/,
        /samples\[2\].price: is missing/,
      ],
    ],
    [
      'in SQL that accepts a check of each column, and names none',
      'sql',
      `-- target: fares\n-- reason: x\n-- accept.null_share: y\nselect 1`,
      [/accept.null_share: is no check.*-- accept.null_share:price: why/],
    ],
    [
      'in SQL with a threshold of one column',
      'sql',
      `-- target: fares\n-- reason: x\n-- threshold.null_share:price: 0.5\nselect 1`,
      [/thresholds.null_share:price: is not an option.*Known here: .*null_share,/],
    ],
    [
      'with a threshold that is no share',
      'ts',
      `export default { targets: ['fares'], reason: 'x', logicVersion: 'v', rows: () => [], checks: { thresholds: { null_share: 20 } } }`,
      [/null_share: is not a share/],
    ],
  ])('%s is refused, and nothing is opened', async (_case, ending, text, messages) => {
    const path = fresh(ending, text);
    const refusal = await run(path).then(
      () => expect.fail('it was run'),
      (error: unknown) =>
        error as {
          message: string;
          remedy: string;
          disposition: string;
          problems?: { path: string; problem: string; remedy: string }[];
        },
    );
    const said = [
      refusal.message,
      refusal.remedy,
      ...(refusal.problems ?? []).map((each) => `${each.path}: ${each.problem}. ${each.remedy}`),
    ].join('\n');
    for (const message of messages) expect(said).toMatch(message);
    expect(refusal.disposition).toBe('refuse');
    expect(await opened()).toBe(0);
  });
});
