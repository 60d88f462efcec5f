import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeRun } from '../../src/cli/describe-backfill.ts';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { showBackfill } from '../../src/pipeline/backfill-report.ts';
import { abandon } from '../../src/pipeline/backfill-requests.ts';
import { runBackfill } from '../../src/pipeline/run-backfill.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }),
    sales: facts('public.sales', { key: ['id'], eventTime: 'sold_at' }),
  },
});

const ddl = `
  create table public.fares (route text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.sales (id bigint not null, sold_at timestamptz not null, route text)`;

describe('a backfill file', () => {
  let install: Install;
  let folder: string;
  let count = 0;
  beforeAll(async () => {
    install = await createInstall('backfill file', { ddl, targets });
    folder = mkdtempSync(join(tmpdir(), 'emend-backfills-'));
    mkdirSync(join(folder, 'folder.csv'));
    await install.start();
    await install.source.query(
      `insert into corrections.fares (route, valid_from, price) select 'R' || n, '2026-01-01', 100 from generate_series(1, 10) as n`,
    );
    await install.wait();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const fresh = (ending: string, text: string) => write(`b-${++count}.${ending}`, text);
  const named = () => `b-${count}`;
  const run = (path: string, options: Parameters<typeof runBackfill>[2] = {}) =>
    runBackfill(install.config, path, { timeoutMs: 30_000, ...options });
  const ts = (body: string) =>
    fresh(
      'ts',
      `import { defineBackfill } from 'emend'\nexport default defineBackfill({ targets: ['fares'], reason: 'contract 17', logicVersion: 'v1', ${body} })\n`,
    );
  const september = (route: string, price: number) =>
    `{ route: '${route}', valid_from: '2026-09-01', valid_to: '2026-10-01', price: ${price} }`;
  const price = async (route: string) =>
    (await install.store.query(`select price from emend.fares_at('2026-09-15') where route = $1`, [route]))
      .rows[0]?.price as string;
  const opened = async () =>
    (await install.source.query(`select name from corrections._backfill where name = $1`, [named()])).rows
      .length;
  const failing = (checks: readonly { name: string; verdict: string }[]) =>
    checks.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);

  it('is run to its checks, and to its promote where that is asked; the same file again changes nothing', async () => {
    const path = ts(`
      boundary: { fares: { from: '2026-09-01', to: '2026-10-01' } },
      rows: async function* () { yield ${september('R1', 120)}; yield ${september('R2', 130)} }`);
    const first = await run(path);
    expect(first).toMatchObject({ backfill: named(), state: 'checked', problem: null });
    expect(first.done).toEqual(['opened', 'loaded', 'sealed', 'checked']);
    expect(first.diff).toEqual([
      { target: 'fares', keys: 2, added: 0, removed: 0, changed: 2, columns: { price: 2 } },
    ]);
    expect(await price('R1')).toBe('100');
    expect((await run(path)).done).toEqual([]);
    const promoted = await run(path, { promote: true, reason: 'looks right' });
    expect(promoted).toMatchObject({ state: 'promoted', problem: null, done: ['promoted'] });
    expect(await price('R1')).toBe('120');
    expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', problem: null, done: [] });
    const { events, origin } = await showBackfill(install.config, named());
    expect(events.at(-1)).toMatchObject({ state: 'promoted', reason: 'looks right' });
    expect(origin).toEqual({ file: `${named()}.ts`, checksum: expect.stringMatching(/^[0-9a-f]{64}$/) });
  });

  it('that was changed under its name is refused before anything is done, whatever had become of it', async () => {
    const path = ts(`rows: () => [${september('R3', 120)}]`);
    await run(path, { promote: true });
    const state = () => install.source.query(`select * from corrections._request order by _id`);
    const before = (await state()).rows;
    write(
      `${named()}.ts`,
      `import 'emend'\nexport default { targets: ['fares'], reason: 'x', logicVersion: 'v1', rows: () => [${september('R3', 1)}] }`,
    );
    await expect(run(path, { promote: true })).rejects.toMatchObject({
      code: 'backfill_refused',
      message: expect.stringContaining('has been changed since') as string,
    });
    expect((await state()).rows).toEqual(before);
    expect(await price('R3')).toBe('120');
  });

  it('that died while it was loaded goes on where it was, with each row once', async () => {
    const gate = write('gate', '');
    const path = ts(`
      rows: async function* () {
        const { existsSync } = await import('node:fs')
        for (let n = 1; n <= 12000; n++) {
          if (n === 7000 && existsSync('${gate}')) throw new Error('killed')
          yield { route: 'K' + n, valid_from: '2026-09-01', price: n }
        }
      }`);
    await expect(run(path)).rejects.toThrow('killed');
    rmSync(gate);
    const second = await run(path);
    expect(second).toMatchObject({ state: 'checked', done: ['loaded', 'sealed', 'checked'] });
    expect(second.loaded).toMatchObject([{ read: 12_000, written: 7_000 }]);
    const { rows } = await install.source.query(
      `select count(*), count(distinct route) as routes from corrections.fares where _backfill = $1`,
      [named()],
    );
    expect(rows).toEqual([{ count: '12000', routes: '12000' }]);
  });

  it('in SQL takes its rows from the store, with its checks, samples and what may fail in the header', async () => {
    write('samples.csv', 'route,valid_at,price\nR5,2026-09-15,150\nR5,2026-10-15,100\nR6,2026-09-15,149\n');
    const path = fresh(
      'sql',
      `-- target: fares
-- reason: fares of September were too low by half
-- logic-version: v2
-- from: 2026-09-01
-- to: 2026-10-01
-- where: route in ('R5', 'R6')
-- on: store
-- samples: samples.csv
-- check.none_above_140: select * from public.fares
--   where price > 140;
-- accept.none_above_140: that was an old rule

-- every route that has one
select route, date '2026-09-01' as valid_from, date '2026-10-01' as valid_to, price * 1.5 as price
from fares_now()
where route in ('R5', 'R6');
`,
    );
    await install.store.query(
      `create or replace function public.fares_now() returns setof public.fares language sql stable as $$ select * from public.fares $$`,
    );
    const blocked = await run(path, { promote: true });
    expect(blocked).toMatchObject({ state: 'checked', loaded: [{ read: 2 }] });
    expect(failing(blocked.checks)).toEqual(['none_above_140', 'samples_differing']);
    expect(blocked.problem).toMatch(/samples_differing/);
    expect(await price('R5')).toBe('100');

    write('samples.csv', 'route,valid_at,price\nR5,2026-09-15,150\nR6,2026-10-15,100\n');
    await expect(run(path)).rejects.toThrow(/or its samples \(samples.csv\), has been changed/);
    const again = fresh(
      'sql',
      `-- target: fares\n-- reason: again\n-- logic-version: v3\n-- samples: samples.csv\n-- check.none_above_140: select from public.fares where price > 140\n-- accept.none_above_140: that was an old rule\nselect route, '2026-09-01'::date as valid_from, '2026-10-01'::date as valid_to, 150 as price from corrections.fares where route = 'R5' and _backfill is null`,
    );
    const promoted = await run(again, { promote: true });
    expect(promoted).toMatchObject({ state: 'promoted', problem: null });
    expect(promoted.checks.find(({ name }) => name === 'none_above_140')).toMatchObject({
      verdict: 'fail',
      accepted: 'that was an old rule',
    });
    expect(await price('R5')).toBe('150');
  });

  it('of several targets loads each from where it says', async () => {
    write('sales.csv', 'id,sold_at,route\n1,2026-09-02T10:00:00Z,R7\n2,2026-09-03T10:00:00Z,R7\n');
    const path = fresh(
      'mjs',
      `import { defineBackfill } from 'emend'
       export default defineBackfill({
         targets: ['fares', 'sales'], reason: 'late', logicVersion: 'v1',
         rows: [
           { target: 'fares', rows: { sql: "select 'R7' as route, date '2026-09-01' as valid_from, 170 as price", on: 'source' } },
           { target: 'sales', rows: { file: 'sales.csv' } },
         ],
         checks: { samples: [
           { target: 'fares', key: { route: 'R7' }, validAt: '2026-09-15', values: { price: 170 } },
           { target: 'sales', key: { id: 2 }, values: { route: 'R7' } },
           { target: 'sales', key: { id: 3 }, values: null },
         ] },
       })`,
    );
    const ran = await run(path, { promote: true });
    expect(ran).toMatchObject({ state: 'promoted', loaded: [{ read: 1 }, { read: 2 }] });
    expect(
      ran.checks.filter(({ name }) => name === 'samples_differing').map(({ verdict }) => verdict),
    ).toEqual(['pass', 'pass']);
  });

  describe('with rows in a file', () => {
    const rows =
      'route,valid_from,valid_to,price\nF1,2026-09-01,2026-10-01,120\nF2,2026-09-01,2026-10-01,130\n';
    const requests = async () =>
      (await install.source.query(`select * from corrections._request order by _id`)).rows;

    it.each<[string, string]>([
      ['has another value', rows.replace('130', '131')],
      ['has a row more', `${rows}F3,2026-09-01,2026-10-01,140\n`],
      ['has a row less', rows.slice(0, rows.indexOf('F2'))],
      ['has its rows in another order', 'route,valid_from,valid_to,price\nF2,2026-09-01,2026-10-01,130\nF1,2026-09-01,2026-10-01,120\n'],
      ['holds no row', 'route,valid_from,valid_to,price\n'],
      ['cannot be read', `${rows}"F3,2026`],
      ['is no text', `${rows}\0`],
    ])('that %s since it was loaded is refused, before the promote and after: the old rows are not promoted in silence', async (_case, changed) => {
      const path = ts(`rows: { file: 'changed.csv' }`);
      const refused = async (promote: boolean) => {
        write('changed.csv', changed);
        const before = await requests();
        await expect(run(path, { promote })).rejects.toMatchObject({
          code: 'backfill_refused',
          message: expect.stringMatching(/^changed.csv has been changed since backfill b-\d+ was loaded from it; nothing/) as string,
          remedy: expect.stringMatching(/Put it back.*another name/) as string,
        });
        expect(await requests()).toEqual(before);
        write('changed.csv', rows);
      };
      write('changed.csv', rows);
      await run(path);
      await refused(false);
      await refused(true);
      expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', done: ['promoted'], rowsGone: [] });
      await refused(true);
      expect((await run(path)).done).toEqual([]);
    }); // prettier-ignore

    it('of which a line was set aside is refused when that is mended later: it would not be loaded any more', async () => {
      const bad = rows.replace('130', 'much');
      write('bad.csv', bad);
      const path = ts(`rows: { file: 'bad.csv', skipBad: 'left-out-${count}.ndjson' }`);
      expect(await run(path)).toMatchObject({ state: 'checked', loaded: [{ written: 1, skipped: 1 }] });
      write('bad.csv', rows);
      await expect(run(path, { promote: true })).rejects.toThrow(/bad.csv has been changed since/);
      write('bad.csv', bad);
      expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', problem: null });
    });

    it('that is gone since it was loaded is said, and stands in the way of nothing: its rows are loaded', async () => {
      write('once.csv', rows);
      const path = ts(`rows: { file: 'once.csv' }`);
      await run(path);
      rmSync(join(folder, 'once.csv'));
      expect(await run(path)).toMatchObject({ state: 'checked', done: [], rowsGone: ['once.csv'] });
      expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', problem: null });
      expect(await price('F2')).toBe('130');
      const later = await run(path, { promote: true });
      expect(later).toMatchObject({ state: 'promoted', done: [], problem: null });
      expect(describeRun(later)).toMatch(/^once.csv is not there any more: what was loaded of it stays$/m);
    });
  });

  it('takes samples from a list as from a file, and with key and values apart', async () => {
    const samples = [
      `{ route: 'S1', valid_at: '2026-09-15', price: 120 }`,
      `{ route: 'S1', valid_at: '2026-10-15', _op: 'retract' }`,
      `{ key: { route: 'S1' }, validAt: '2026-08-15', values: null }`,
    ];
    const rows = `rows: async () => [${september('S1', 120)}]`;
    const right = await run(ts(`${rows}, checks: { samples: [${samples.join(', ')}] }`));
    const found = ({ checks }: Awaited<ReturnType<typeof run>>) =>
      checks.find(({ name }) => name === 'samples_differing');
    expect(found(right)).toMatchObject({ verdict: 'pass' });
    const wrong = samples.map((sample) => sample.replace('120', '121').replace('10-15', '09-16').replace('08-15', '09-17'));
    expect(found(await run(ts(`${rows}, checks: { samples: [${wrong.join(', ')}] }`)))).toMatchObject({ figure: '3' });
  }); // prettier-ignore

  it('in SQL accepts a check of one column by its name', async () => {
    const text = (more: string) =>
      `-- target: fares\n-- reason: withdrawn\n-- logic-version: v1\n${more}\nselect 'R1' as route, date '2026-02-01' as valid_from, date '2026-03-01' as valid_to, null::numeric as price`;
    const blocked = await run(fresh('sql', text('')), { promote: true });
    expect(failing(blocked.checks)).toEqual(['null_share:price']);
    const accepted = await run(fresh('sql', text('-- accept.null_share:price: nobody knows: not yet\n')), { promote: true });
    expect(accepted).toMatchObject({ state: 'promoted', problem: null });
    expect(accepted.checks.find(({ name }) => name === 'null_share:price')).toMatchObject({
      verdict: 'fail',
      accepted: 'nobody knows: not yet',
    });
  }); // prettier-ignore

  it('keeps whether its raw input can be read, and the check tells when it cannot', async () => {
    const raw = 'route,price\nR8,1\n';
    write('raw.csv', raw);
    const checksum = createHash('sha256').update(raw).digest('hex');
    const rows = `rows: () => [${september('R8', 180)}]`;
    const readable = await run(ts(`origin: { input: 'export of the vendor', files: ['raw.csv'] }, ${rows}`));
    expect(readable.checks.find(({ name }) => name === 'raw_input')).toMatchObject({ verdict: 'pass' });
    expect((await showBackfill(install.config, named())).origin).toMatchObject({
      input: 'export of the vendor',
      raw_input: [{ file: 'raw.csv', checksum }],
    });
    const first = join(folder, `${named()}.ts`);
    write('raw.csv', 'another export');
    const changed = await run(first, { promote: true });
    expect(changed).toMatchObject({ state: 'checked' });
    expect(changed.problem).toMatch(/could not be replayed: raw.csv/);
    write('raw.csv', raw);
    expect(await run(first, { promote: true })).toMatchObject({ state: 'promoted', problem: null });

    const gone = await run(ts(`origin: { files: ['raw.csv', 'gone.csv'] }, ${rows}`), { promote: true });
    expect(gone).toMatchObject({ state: 'checked' });
    expect(gone.problem).toMatch(/raw_input of fares: 1 of 2 files can be read/);
    expect(gone.checks.find(({ name }) => name === 'raw_input')?.examples).toEqual([
      'gone.csv could not be read when the backfill was opened',
    ]);
    const unsaid = await run(ts(rows));
    expect(unsaid.checks.find(({ name }) => name === 'raw_input')).toMatchObject({ verdict: 'note' });
  });

  it('that is promoted stays so, whatever was asked for and refused: run again it does not say that it is abandoned', async () => {
    const path = ts(`rows: () => [${september('R9', 191)}]`);
    await run(path, { promote: true });
    const refused = await abandon(install.config, named(), { reason: 'too late', timeoutMs: 20_000 });
    expect(refused).toMatchObject({ state: 'promoted', problem: 'nothing to abandon: it is promoted' });
    expect(await run(path)).toMatchObject({ state: 'promoted', done: [], problem: null });
  });

  it('that was abandoned stays so: run again it says so, and it cannot be promoted', async () => {
    const path = ts(`rows: () => [${september('R9', 190)}]`);
    await run(path);
    await abandon(install.config, named(), { reason: 'not after all', timeoutMs: 20_000 });
    expect(await run(path)).toMatchObject({ state: 'abandoned', done: [], problem: null });
    expect(await run(path, { promote: true })).toMatchObject({
      state: 'abandoned',
      done: [],
      problem: expect.stringContaining('final') as string,
    });
  });

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

  describe('of which rows have been loaded when the rest is refused', () => {
    const first = `{ target: 'fares', rows: () => [${september('R9', 190)}] }`;
    const second = `{ target: 'fares', rows: () => [${september('R10', 200)}] }`;
    const halfLoaded = async () => {
      const missing = `{ target: 'fares', rows: { file: 'gone.csv' } }`;
      await expect(run(ts(`rows: [${first}, ${missing}]`))).rejects.toThrow(/there is no file/);
      expect(await logged()).toEqual(['R9']);
    };
    const logged = async () =>
      (
        await install.source.query(`select route from corrections.fares where _backfill = $1 order by _id`, [
          named(),
        ])
      ).rows.map(({ route }) => String(route));
    // a module of another name: this process has the old one
    const mend = (rows: string) =>
      write(
        `${named()}.mjs`,
        `export default { targets: ['fares'], reason: 'mended', logicVersion: 'v2', boundary: { fares: { to: '2026-10-01' } }, rows: ${rows} }`,
      );

    it('can be mended and run under its name: what is loaded is not loaded twice, and what it stated before stays on record', async () => {
      await halfLoaded();
      const path = mend(`[${first}, ${second}]`);
      expect(await run(path)).toMatchObject({ state: 'checked', done: ['loaded', 'sealed', 'checked'] });
      expect(await logged()).toEqual(['R9', 'R10']);
      const { reason, logicVersion, boundary, origin } = await showBackfill(install.config, named());
      expect({ reason, logicVersion, boundary }).toEqual({
        reason: 'mended',
        logicVersion: 'v2',
        boundary: { fares: { to: '2026-10-01' } },
      });
      expect(origin).toMatchObject({
        file: `${named()}.mjs`,
        mended: [{ reason: 'contract 17', logic_version: 'v1', origin: { file: `${named()}.ts` } }],
      });
      // the workers check by what it states now
      const { rows } = await install.store.query<{ boundary: string; reason: string }>(
        `select boundary::text as boundary, reason from emend.backfill where name = $1`,
        [named()],
      );
      expect(rows[0]).toEqual({ boundary: '{"fares": {"to": "2026-10-01"}}', reason: 'mended' });
      expect((await run(path)).done).toEqual([]);
    });

    it.each<[string, string, RegExp]>([
      ['gives other rows for what is loaded', `[${first.replace('190', '191')}, ${second}]`, /has other content/],
      ['gives more rows for it', `[${first.replace(' }]', ' }, ' + september('R8', 1) + ']')}, ${second}]`, /has other content/],
      ['leaves out what is loaded', `[{ target: 'fares', rows: { sql: "select 'R8' as route" } }]`, /rows-1|another select/],
      ['has it under another name', `[{ target: 'fares', rows: { file: 'b.csv' } }]`, /rows of rows-1 have been loaded/],
    ])('is refused where the changed file %s: no row of it is sealed', async (_case, rows, message) => {
      await halfLoaded();
      const path = mend(rows);
      await expect(run(path)).rejects.toMatchObject({
        code: 'backfill_refused',
        message: expect.stringMatching(message) as string,
        remedy: expect.stringContaining('abandon') as string,
      });
      expect(await logged()).toEqual(['R9']);
      const { state, origin } = await showBackfill(install.config, named());
      expect({ state, origin }).toMatchObject({ state: 'open', origin: { file: `${named()}.ts` } });
      expect(origin).not.toHaveProperty('mended');
    }); // prettier-ignore
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
