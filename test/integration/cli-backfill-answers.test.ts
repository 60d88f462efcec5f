import { Client } from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { showBackfill } from '../../src/pipeline/backfill-report.ts';
import { abandon, promote, revert, seal } from '../../src/pipeline/backfill-requests.ts';
import { loadBackfill } from '../../src/pipeline/load-backfill.ts';
import { openStatedBackfill } from '../../src/pipeline/open-backfill.ts';
import { opening, setUpCliBackfills } from '../support/cli-backfill.ts';
import type { StartedCli } from '../support/run-cli.ts';

describe('emend backfill', () => {
  const { databases, cli, resolved, backfill, write, prices } = setUpCliBackfills('cli backfill answers');
  let running: StartedCli;
  beforeAll(async () => {
    await openStatedBackfill(resolved, opening({ name: 'reprice' }));
    running = cli.start(['start']);
    await running.said('emend is running');
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
