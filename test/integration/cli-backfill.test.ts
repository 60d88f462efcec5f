import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { timeline } from '../../src/config/define-config.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import type { ListedBackfill } from '../../src/pipeline/backfill-report.ts';
import type { CarriedOut } from '../../src/pipeline/backfill-requests.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { diffBackfill } from '../../src/pipeline/backfill-diff.ts';
import { listBackfills, showBackfill } from '../../src/pipeline/backfill-report.ts';
import { abandon, promote, revert, seal } from '../../src/pipeline/backfill-requests.ts';
import { loadBackfill } from '../../src/pipeline/load-backfill.ts';
import { openStatedBackfill, restateStatedBackfill } from '../../src/pipeline/open-backfill.ts';
import { createDatabases } from '../support/databases.ts';
import type { Databases } from '../support/databases.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli, StartedCli } from '../support/run-cli.ts';

const config = `
import { defineConfig, timeline } from 'emend'
export default defineConfig({
  targets: { fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }) },
})
`;

describe('emend backfill', () => {
  let databases: Databases;
  let cli: Cli;
  let running: StartedCli;
  let resolved: ResolvedConfig;
  beforeAll(async () => {
    databases = await createDatabases('cli backfill');
    await query(
      databases.storeUrl,
      `create table public.fares (route text not null, valid_from date not null, valid_to date not null, price numeric not null)`,
    );
    cli = createCli(config, {
      SOURCE_URL: databases.sourceUrl,
      STORE_URL: databases.storeUrl,
      REDIS_URL: databases.redisUrl,
    });
    resolved = resolveConfig(
      {
        source: { url: databases.sourceUrl },
        store: { url: databases.storeUrl },
        targets: { fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }) },
      },
      {},
    );
    await migrate({ config: resolved, print: false });
    await query(
      databases.sourceUrl,
      `insert into corrections.fares (route, valid_from, price) select 'R' || n, '2026-01-01', 100 from generate_series(1, 20) as n`,
    );
  });

  const backfill = (...args: string[]) => cli.run(['backfill', ...args]);
  const write = (name: string, text: string) => {
    writeFileSync(join(cli.dir, name), text);
    return name;
  };
  const prices = async () => {
    const rows = await query<{ price: string }>(
      databases.storeUrl,
      `select distinct price::text as price from emend.fares_at('2026-09-15') order by price`,
    );
    return rows.map((row) => row.price);
  };
  const september = ['--from', '2026-09-01', '--to', '2026-10-01'];
  const opening = (over: object = {}) => ({
    name: 'b',
    targets: ['fares'],
    reason: 'why',
    logicVersion: 'v1',
    ...over,
  });

  it('open wants a reason and a version of the logic', async () => {
    for (const [args, message] of [
      [['--target', 'fares', '--logic-version', 'v1'], /--reason/],
      [['--target', 'fares', '--reason', 'why'], /no git commit here/],
    ] as const) {
      const { code, stderr } = await backfill('open', 'b', ...args);
      expect(stderr).toMatch(message);
      expect(code).toBe(2);
    }
    expect(await listBackfills(resolved)).toEqual([]);
  });

  it.each<[object, RegExp]>([
    [{ targets: ['fare'] }, /no target fare/],
    [{ reason: ' ' }, /without a reason/],
    [{ boundary: { fares: { from: 'soon' } } }, /cannot be read: invalid input syntax for type date/],
    [{ boundary: { fares: { from: '2026-02-01', to: '2026-01-01' } } }, /ends before it begins/],
    [{ boundary: { fares: { where: 'colour = 1' } } }, /cannot be read: column "colour" does not exist/],
    [{ boundary: { fares: { where: 'true); drop table x; --' } } }, /cannot be read: syntax error/],
    [{ boundary: { fares: { where: 'true) or (true' } } }, /cannot be read: syntax error/],
    [{ boundary: { fares: { where: 'true group by 1' } } }, /cannot be read: syntax error/],
  ])('open refuses %j', async (over, message) => {
    await expect(openStatedBackfill(resolved, opening(over))).rejects.toMatchObject({
      message: expect.stringMatching(message) as string,
      disposition: 'refuse',
    });
  });

  it('load names a bad line, sets it aside when told to, and says what it did', async () => {
    const args = ['--target', 'fares', '--logic-version', 'v1', '--reason', 'contract 17', ...september];
    expect(await backfill('open', 'reprice', ...args)).toMatchObject({ code: 0 });
    const lines = Array.from({ length: 20 }, (_, n) => `R${n + 1},2026-09-01,2026-10-01,120`);
    const file = write(
      'fares.csv',
      `route,valid_from,valid_to,price\n${[...lines, 'R21,2026-09-01,2026-10-01,cheap'].join('\n')}\n`,
    );
    const refused = await backfill('load', 'reprice', file);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(
      /^emend: fares.csv, line 22: column price: a text of 5 characters is refused: invalid input syntax for type numeric\n.*--skip-bad/,
    );
    const loaded = await backfill('load', 'reprice', file, '--skip-bad', 'bad.ndjson');
    expect(loaded).toMatchObject({
      code: 0,
      stdout: '20 rows are loaded into backfill reprice; 1 line was left out, see bad.ndjson\n',
    });
    expect(readFileSync(join(cli.dir, 'bad.ndjson'), 'utf8')).toMatch(/^{"line":22,"column":"price"/);
    const again = await backfill('load', 'reprice', file);
    expect(again.stdout).toMatch(
      /^0 rows are loaded into backfill reprice; 20 rows of fares.csv had been loaded before/,
    );
    const both = await backfill('load', 'reprice', file, '--sql', 'select 1');
    expect(both.code).toBe(2);
    expect(both.stderr).toMatch(/either a file or --sql/);
  });

  it.each<[string, Parameters<typeof loadBackfill>[1], RegExp]>([
    ['nope', { rows: [] }, /there is no backfill nope/],
    ['reprice', { file: 'nope.csv' }, /there is no file nope.csv/],
    ['reprice', { sql: 'select 1 as colour' }, /no column/],
    ['reprice', { sql: 'select 1 as colour', on: 'store' }, /no column/],
    ['reprice', { sql: 'select * from nowhere', on: 'store' }, /cannot be run in the store: relation/],
    ['reprice', { sql: 'select 1 where false', on: 'store' }, /gives no row/],
  ])('load into %s refuses %j', async (name, input, message) => {
    await expect(loadBackfill(resolved, input, { backfill: name, source: 'x' })).rejects.toMatchObject({
      message: expect.stringMatching(message) as string,
      disposition: 'refuse',
    });
  });

  it('rows of a program are loaded as correct() takes them, and gone on with by the name they are given', async () => {
    await openStatedBackfill(resolved, {
      name: 'program',
      targets: ['fares'],
      reason: 'why',
      logicVersion: 'v1',
    });
    const rows = [
      { route: 'P1', valid_from: new Date('2026-09-01'), price: 1.5 },
      { route: 'P2', valid_from: '2026-09-01', valid_to: undefined, price: '12345678901234567890.12' },
    ];
    await expect(loadBackfill(resolved, { rows }, { backfill: 'program' })).rejects.toThrow(
      /no name of their own/,
    );
    const options = { backfill: 'program', source: 'nightly' };
    const failed = [rows[0]!, { ...rows[1]!, price: 0 / 0 }];
    await expect(loadBackfill(resolved, { rows: failed }, options)).rejects.toMatchObject({
      code: 'correction_invalid',
      message: 'row 2: "price" is NaN',
      remedy: expect.stringContaining(`the text 'NaN'`) as string,
    });
    expect(await loadBackfill(resolved, { rows }, options)).toMatchObject({ written: 2 });
    expect(await loadBackfill(resolved, { rows }, options)).toMatchObject({ read: 2, written: 0 });
    expect(
      await query(
        databases.sourceUrl,
        `select price::text as price, valid_from::text as valid_from from corrections.fares where _backfill = 'program' order by _id`,
      ),
    ).toEqual([
      { price: '1.5', valid_from: '2026-09-01' },
      { price: '12345678901234567890.12', valid_from: '2026-09-01' },
    ]);
    await query(databases.sourceUrl, `select corrections.abandon_backfill('program', 'only a test')`);
  });

  it('what is asked for stays asked while no worker runs, and the wait says that none does', async () => {
    await expect(seal(resolved, 'nope', {})).rejects.toMatchObject({
      message: 'there is no backfill "nope"',
      remedy: expect.stringContaining('emend backfill list') as string,
    });
    await expect(promote(resolved, 'reprice', {})).rejects.toMatchObject({
      message: expect.stringContaining('is not sealed') as string,
      remedy: 'Seal it first.',
    });
    await query(
      databases.storeUrl,
      `update emend.clock set horizon = horizon - interval '1 minute', settled = settled - interval '1 minute'`,
    );
    const waited = await backfill('seal', 'reprice', '--timeout', '1');
    expect(waited.code).toBe(1);
    expect(waited.stderr).toMatch(/backfill reprice is open in the store; .*no worker seems to run/);
    const list = await cli.json<ListedBackfill[]>(['backfill', 'list']);
    expect(list.find(({ name }) => name === 'reprice')).toMatchObject({
      state: 'open',
      asked: 'sealed',
      rows: 20,
    });
  });

  it('says whom it waits for while another session holds the backfill, and gives up in time: then nothing was asked', async () => {
    const held = new Client({ connectionString: databases.sourceUrl, application_name: 'a colleague' });
    await held.connect();
    try {
      await held.query('begin');
      await held.query(`select from corrections._backfill where name = 'reprice' for update`);
      const waited = await backfill('abandon', 'reprice', '--reason', 'no', '--timeout', '2');
      expect(waited.code).toBe(1);
      expect(waited.stderr).toMatch(
        /^reprice: waits for session \d+ \(a colleague\), which holds the backfill in the source\nemend: backfill reprice: session \d+ \(a colleague\) holds it in the source; nothing was asked for\nAsk again/,
      );
      const told: string[] = [];
      const restated = restateStatedBackfill(resolved, opening({ name: 'reprice' }), {
        timeoutMs: 2_000,
        onBlocked: (text) => told.push(text),
      });
      await expect(restated).rejects.toMatchObject({ code: 'timed_out' });
      expect(told).toHaveLength(1);
    } finally {
      await held.end();
    }
    const asked = await query(
      databases.sourceUrl,
      `select from corrections._request where backfill = 'reprice' and request = 'abandon'`,
    );
    expect(asked).toEqual([]);
  });

  it('seal waits until all is staged and checked, and show tells who, when and why', async () => {
    running = cli.start(['start']);
    await running.said('emend is running');
    const sealed = await cli.json<CarriedOut>(['backfill', 'seal', 'reprice', '--timeout', '60']);
    expect(sealed).toEqual({
      backfill: 'reprice',
      state: 'checked',
      problem: null,
      waitsFor: null,
      window: [],
      byOther: null,
    });
    const report = await showBackfill(resolved, 'reprice');
    expect(report).toMatchObject({
      state: 'checked',
      reason: 'contract 17',
      logicVersion: 'v1',
      counts: [{ target: 'fares', sealed: 20, loaded: 20, staged: 20 }],
    });
    expect(report.events.map(({ state }) => state)).toEqual(['open', 'sealed', 'staged', 'checked']);
    expect(report.checks.length).toBeGreaterThan(0);
    expect((await backfill('check', 'reprice')).code).toBe(0);
    expect((await backfill('show', 'reprice')).stdout).toMatch(/state {5}checked\n/);
    expect(await prices()).toEqual(['100']);
  });

  it('diff lists and exports every answer that would change', async () => {
    const diff = await diffBackfill(resolved, 'reprice', { limit: 3 });
    expect(diff.summary).toEqual([
      { target: 'fares', keys: 20, added: 0, removed: 0, changed: 20, columns: { price: 20 } },
    ]);
    expect(diff.changes).toHaveLength(3);
    expect(diff.changes[0]).toEqual({
      target: 'fares',
      key: { route: 'R1' },
      validFrom: '2026-09-01',
      validTo: '2026-10-01',
      old: { price: '100' },
      new: { price: '120' },
    });
    expect((await backfill('diff', 'reprice')).stdout).toMatch(/before +after\n.*\n.* price=100 +price=120/);
    expect((await backfill('diff', 'reprice', '--limit', '3')).stdout).toMatch(/\nand 17 more: --limit/);
    const windows = await backfill('diff', 'reprice', '--window', '1 month');
    expect(windows.stdout).toMatch(/fares +2026-09-01 +2026-10-01 +1 +20 +20\n/);
    const unsaid = await backfill('promote', 'reprice', '--ignore-window');
    expect(unsaid).toMatchObject({ code: 2, stderr: expect.stringContaining('without a reason') as string });
    const exported = await backfill('diff', 'reprice', '--export', 'diff.csv');
    expect(exported.stdout).toContain('20 changes are in diff.csv');
    expect(readFileSync(join(cli.dir, 'diff.csv'), 'utf8').split('\n')[1]).toMatch(
      /^fares,"{""route"":""R1""}",2026-09-01,2026-10-01,/,
    );
    const ndjson = join(cli.dir, 'diff.ndjson');
    await diffBackfill(resolved, 'reprice', { limit: 0, exportTo: ndjson });
    expect(readFileSync(ndjson, 'utf8').trim().split('\n')).toHaveLength(20);
    const before = readFileSync(ndjson, 'utf8');
    await expect(diffBackfill(resolved, 'reprice', { limit: 0, exportTo: ndjson })).rejects.toMatchObject({
      message: `${ndjson} holds something already; nothing of it was changed`,
      disposition: 'refuse',
    });
    expect(readFileSync(ndjson, 'utf8')).toBe(before);
    await expect(diffBackfill(resolved, 'nope', { limit: 1 })).rejects.toThrow(/has no backfill nope/);
    await expect(
      diffBackfill(resolved, 'reprice', { limit: 0, exportTo: join(cli.dir, 'nowhere', 'x.csv') }),
    ).rejects.toMatchObject({
      message: expect.stringMatching(/nowhere.x\.csv cannot be written: ENOENT/) as string,
      disposition: 'refuse',
    });
  });

  it('promote makes it visible and revert takes it back, each once however often it is asked', async () => {
    expect((await backfill('promote', 'reprice', '--accept', 'x')).code).toBe(2);
    const unknown = await backfill('promote', 'reprice', '--accept', 'nope', '--reason', 'why');
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toMatch(/reprice has no check nope \(--accept\)\nIts checks are: .*overlaps/);
    const never = await backfill('promote', 'reprice', '--at', 'notatime');
    expect(never.code).toBe(2);
    expect(never.stderr).toMatch(
      /^emend: the time at which to promote \(--at\) cannot be read: .*\n.*2026-12/,
    );
    const promoted = await backfill('promote', 'reprice', '--reason', 'looks right');
    expect(promoted).toMatchObject({ code: 0, stdout: 'backfill reprice is promoted\n' });
    expect(await prices()).toEqual(['120']);
    expect(await promote(resolved, 'reprice', {})).toMatchObject({ state: 'promoted', problem: null });
    const again = await backfill('promote', 'reprice', '--reason', 'once more');
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/by another request .*, looks right\n/) as string,
    });
    const abandoned = await backfill('abandon', 'reprice', '--reason', 'too late');
    expect(abandoned.code).toBe(1);
    expect(abandoned.stdout).toMatch(/is promoted\nnothing to abandon/);
    // a wish that was refused is none
    expect(await showBackfill(resolved, 'reprice')).toMatchObject({ state: 'promoted', asked: 'promoted' });
    expect((await backfill('show', 'reprice')).stdout).toMatch(/state {5}promoted\n/);
    expect((await backfill('list')).stdout).not.toContain('asked to be');
    const reverted = await backfill('revert', 'reprice', '--reason', 'wrong rule');
    expect(reverted).toMatchObject({ code: 0, stdout: 'backfill reprice is reverted\n' });
    expect(await prices()).toEqual(['100']);
    const twice = await backfill('revert', 'reprice', '--reason', 'again');
    expect(twice).toMatchObject({ code: 0, stderr: '' });
    expect(twice.stdout).toMatch(
      /^backfill reprice is reverted\nit was reverted by another request than this one, .*: 2.*, wrong rule\n$/,
    );
    // what was answered while it was promoted does not hold any more
    const late = await backfill('abandon', 'reprice', '--reason', 'once more');
    expect(late).toMatchObject({ code: 2, stdout: '' });
    expect(late.stderr).toMatch(/^emend: backfill "reprice" was asked to be reverted\nNothing is left of it/);
    const loaded = await backfill('load', 'reprice', 'fares.csv');
    expect(loaded.code).toBe(2);
    expect(loaded.stderr).toMatch(/backfill reprice was asked to be reverted: nothing is loaded into it/);
    const { events } = await showBackfill(resolved, 'reprice');
    expect(events.slice(-2).map(({ state, reason }) => [state, reason])).toEqual([
      ['promoted', 'looks right'],
      ['reverted', 'wrong rule'],
    ]);
  });

  it('a select in the source, promoted later; and one that is thrown away', async () => {
    await openStatedBackfill(resolved, opening({ name: 'later' }));
    const sql = `select route, date '2026-09-01' as valid_from, date '2026-10-01' as valid_to, price + 50 as price from corrections.fares where _backfill is null`;
    expect(await loadBackfill(resolved, { sql }, { backfill: 'later' })).toMatchObject({ written: 20 });
    expect(await seal(resolved, 'later', {})).toMatchObject({ state: 'checked', problem: null });
    const promoted = await backfill('promote', 'later', '--at', '2100-01-01');
    expect(promoted.code).toBe(1);
    expect(promoted.stdout).toMatch(/later is checked\nit is promoted at 2100-01-01.*, while a worker runs/);
    expect(await prices()).toEqual(['100']);
    const gone = await abandon(resolved, 'later', { reason: 'not after all' });
    expect(gone).toMatchObject({ state: 'abandoned', problem: null });
    await expect(promote(resolved, 'later', {})).rejects.toThrow(/was asked to be abandoned/);
    const list = await listBackfills(resolved);
    expect(list.map(({ name, state }) => [name, state])).toEqual([
      ['reprice', 'reverted'],
      ['program', 'abandoned'],
      ['later', 'abandoned'],
    ]);
  });

  it('of one that a revert abandoned nobody is told that it was promoted', async () => {
    await openStatedBackfill(resolved, opening({ name: 'unseen' }));
    const row = { route: 'R1', valid_from: '2026-09-01', valid_to: '2026-10-01', price: 111 };
    await loadBackfill(resolved, { rows: [row] }, { backfill: 'unseen', source: 'x' });
    await seal(resolved, 'unseen', {});
    expect(await promote(resolved, 'unseen', { at: '2100-01-01' })).toMatchObject({ state: 'checked' });
    expect(await revert(resolved, 'unseen', { reason: 'not after all' })).toMatchObject({
      state: 'abandoned',
      problem: 'nothing to revert: it was not promoted; it is abandoned',
    });
    await expect(abandon(resolved, 'unseen', { reason: 'to be sure' })).rejects.toMatchObject({
      code: 'backfill_refused',
      message: 'backfill "unseen" was asked to be reverted',
      remedy: expect.stringContaining('not promoted, it is abandoned by that') as string,
    });
    expect(await showBackfill(resolved, 'unseen')).toMatchObject({ state: 'abandoned', asked: 'abandoned' });
  });

  it('load says whom it waits for while another session holds the backfill, and goes on when that has ended', async () => {
    await openStatedBackfill(resolved, opening({ name: 'held' }));
    write('held.csv', 'route,valid_from,price\nR1,2026-09-01,110\n');
    const holder = new Client({ connectionString: databases.sourceUrl, application_name: 'a colleague' });
    await holder.connect();
    try {
      await holder.query('begin');
      await holder.query(`select from corrections._backfill where name = 'held' for update`);
      const loading = cli.start(['backfill', 'load', 'held', 'held.csv']);
      await loading.said('held: waits for session');
      await holder.query('commit');
      const { code, stderr } = await loading.ended;
      expect(stderr).toMatch(
        /^held: waits for session \d+ \(a colleague\), which holds the backfill, or this input of it, in the source\n$/,
      );
      expect(code).toBe(0);
    } finally {
      await holder.end();
    }
    await abandon(resolved, 'held', { reason: 'a test' });
  });

  it('run shows checks and diff of a file, promotes it when told to, and says what stands in the way', async () => {
    const select = `select 'R1' as route, date '2026-09-01' as valid_from, date '2026-10-01' as valid_to, 130 as price`;
    const file = write('of-a-file.sql', `-- target: fares\n-- reason: contract 17\n\n${select}\n`);
    const [first, second] = [
      await backfill('run', file, '--logic-version', 'v3'),
      await backfill('run', file, '--promote', '--reason', 'looks right'),
    ];
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toMatch(
      /^backfill of-a-file is checked \(opened, 1 row loaded, sealed, checked\)\n/,
    );
    expect(first.stdout).toMatch(/\noutside_boundary +fares +0 +at most 0 +pass\n/);
    expect(first.stdout).toMatch(/\nfares {2}1 key: 0 added, 0 removed, 1 changed \(price 1\)\n/);
    expect(first.stdout).toMatch(/run the file with --promote/);
    expect(second.stdout).toMatch(/^backfill of-a-file is promoted \(promoted\)\n/);
    expect(await prices()).toEqual(['100', '130']);
    const today = select.replace(`date '2026-09-01'`, 'current_date').replace(`'2026-10-01'`, `'infinity'`);
    write('wrong.sql', `-- target: fares\n-- reason: a mistake\n-- logic-version: v3\n\n${today}\n`);
    const wrong = await backfill('run', 'wrong.sql', '--promote');
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toMatch(
      /checks failed: valid_at_load_time of fares: 1 \(asked for: at most 0.5\)\nSee emend backfill/,
    );
    running.process.kill('SIGTERM');
    expect((await running.ended).code).toBe(0);
  });
});
