import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ListedBackfill } from '../../src/pipeline/backfill-report.ts';
import type { CarriedOut } from '../../src/pipeline/backfill-requests.ts';
import { diffBackfill } from '../../src/pipeline/backfill-diff.ts';
import { listBackfills, showBackfill } from '../../src/pipeline/backfill-report.ts';
import { abandon, promote, seal } from '../../src/pipeline/backfill-requests.ts';
import { loadBackfill } from '../../src/pipeline/load-backfill.ts';
import { openStatedBackfill, restateStatedBackfill } from '../../src/pipeline/open-backfill.ts';
import { opening, setUpCliBackfills } from '../support/cli-backfill.ts';
import { query } from '../support/query.ts';
import type { StartedCli } from '../support/run-cli.ts';

describe('emend backfill', () => {
  const { databases, cli, resolved, backfill, write, prices } = setUpCliBackfills('cli backfill');
  let running: StartedCli;
  // asked for here, it comes before the databases are dropped
  beforeAll(() => {
    afterAll(async () => {
      running.process.kill('SIGTERM');
      await running.ended;
    });
  });
  const september = ['--from', '2026-09-01', '--to', '2026-10-01'];

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
});
