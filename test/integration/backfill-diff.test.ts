import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { facts, timeline } from '../../src/config/define-config.ts';
import { diffBackfill } from '../../src/pipeline/backfill-diff.ts';
import { showBackfill } from '../../src/pipeline/backfill-report.ts';
import { promote, seal } from '../../src/pipeline/backfill-requests.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const ddl = `
  create table public.fares (route text not null, valid_from timestamptz not null, valid_to timestamptz not null, price numeric);
  create table public.days (route text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.levels (route text not null, valid_from int not null, valid_to int not null, price numeric);
  create table public.orders (id int not null, ordered_at timestamptz not null, amount numeric)`;
const of = { key: ['route'], period: ['valid_from', 'valid_to'] } as const;
const targets = {
  fares: timeline('public.fares', of),
  days: timeline('public.days', of),
  levels: timeline('public.levels', of),
  orders: facts('public.orders', { key: ['id'], eventTime: 'ordered_at' }),
};

type Target = keyof typeof targets;

describe('the diff of a backfill', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('backfill diff', { ddl, targets });
    await install.start();
  });

  const insert = (target: Target, rows: readonly unknown[][], backfill: string | null = null) => {
    const columns = target === 'orders' ? 'id, ordered_at, amount' : 'route, valid_from, valid_to, price';
    const values = rows.map(
      (row) => `(${row.map((value) => (typeof value === 'string' ? `'${value}'` : String(value))).join(', ')}, $1)`,
    ); // prettier-ignore
    return install.source.query(`insert into corrections.${target} (${columns}, _backfill) values ${values.join(', ')} returning _id`, [backfill]); // prettier-ignore
  };
  const checked = async (name: string, rows: Partial<Record<Target, unknown[][]>>) => {
    await install.source.query(`select corrections.open_backfill($1, $2, 'a test', 'v1')`, [name, Object.keys(rows)]); // prettier-ignore
    for (const [target, each] of Object.entries(rows)) await insert(target as Target, each, name);
    expect(await seal(install.config, name, {})).toMatchObject({ state: 'checked' });
  };
  const windows = async (name: string, window: string, timeZone?: string) => {
    const found = await diffBackfill(install.config, name, { limit: 100, windows: { window, timeZone } });
    return found.windows!.map((each) => [each.from, each.to, each.windows, each.keys, each.parts]);
  };

  it('by windows tells which of them change, with how many keys and parts, in as many lines as there are changes', async () => {
    await insert('fares', [['A', '2026-09-01T10:15Z', '2026-09-01T12:00Z', 4]]);
    await install.wait();
    await checked('hours', {
      fares: [
        ['A', '2026-09-01T10:30Z', '2026-09-01T10:40Z', 5],
        ['A', '2026-09-01T10:50Z', '2026-09-01T12:00Z', 5],
        ['B', '2026-09-01T11:00Z', '2026-09-01T11:01Z', 5],
        ['C', '2026-09-03T00:00Z', 'infinity', 5],
      ],
    });
    expect(await windows('hours', '1h')).toEqual([
      ['2026-09-01 10:00:00+00', '2026-09-01 11:00:00+00', 1, 1, 2],
      ['2026-09-01 11:00:00+00', '2026-09-01 12:00:00+00', 1, 2, 2],
      ['2026-09-03 00:00:00+00', 'infinity', null, 1, 1],
    ]);
    // two parts of one key in a window are one key; an end at midnight is not of the next day
    expect((await windows('hours', '1 month'))[0]).toEqual([
      '2026-09-01 00:00:00+00',
      '2026-10-01 00:00:00+00',
      1,
      3,
      4,
    ]);
  });

  it('by windows cuts as Postgres does: the same as date_bin and date_trunc of every instant, in the zone that is asked for', async () => {
    const rows = Array.from({ length: 40 }, (_, n) => {
      const from = new Date(Date.UTC(2026, 2, 20) + n * 17 * 3_600_000 + n * 61_000);
      return [`Z${n % 7}`, from.toISOString(), new Date(from.getTime() + ((n % 5) + 1) * 7_000_000).toISOString(), n];
    }); // prettier-ignore
    await checked('zones', { fares: rows });
    for (const [window, zone, expression] of [
      ['1h', 'UTC', `date_trunc('hour', i, 'UTC')`],
      ['1d', 'Europe/Vienna', `date_trunc('day', i, 'Europe/Vienna')`],
      ['1 week', 'UTC', `date_trunc('week', i, 'UTC')`],
      ['1 month', 'Europe/Vienna', `date_trunc('month', i, 'Europe/Vienna')`],
      [
        '15 min',
        'Asia/Kathmandu',
        `date_bin('15 min', i, timestamp '2001-01-01' at time zone 'Asia/Kathmandu')`,
      ],
    ] as const) {
      // by brute force: every second of every part
      const { rows: brute } = await install.store.query<{ at: string; keys: string }>(
        `select at::text as at, count(distinct key)::text as keys
         from (
           select c.key, ${expression} as at
           from emend.backfill_change c
           cross join lateral generate_series(c.valid_from::timestamptz, c.valid_to::timestamptz - interval '1 second', interval '1 second') as i
           where c.backfill = 'zones'
         ) as touched
         group by at order by at`,
      );
      const found = await windows('zones', window, zone);
      const { rows: each } = await install.store.query<{ at: string; keys: string }>(
        `select (g.at at time zone $2)::text as at, f.keys
         from unnest($3::timestamptz[], $4::timestamptz[], $5::text[]) as f (from_at, to_at, keys)
         cross join lateral generate_series(f.from_at at time zone $2, (f.to_at at time zone $2) - interval '1 second', $1::interval) as g (at)
         order by g.at`,
        [
          window,
          window === '1d' || window === '1 month' ? zone : 'UTC',
          found.map((row) => row[0]),
          found.map((row) => row[1]),
          found.map((row) => String(row[3])),
        ],
      );
      expect(each, `${window} in ${zone}`).toEqual(brute);
      expect(found.reduce((sum, row) => sum + Number(row[2]), 0)).toBe(brute.length);
    }
  });

  it('by windows: a fact changes the window that it leaves and the one that it comes to; dates have no zone', async () => {
    await insert('orders', [[1, '2026-09-01T10:15Z', 4], [2, '2026-09-01T10:20Z', 4]]); // prettier-ignore
    await install.wait();
    await checked('moved', {
      orders: [[1, '2026-09-01T13:15Z', 4], [2, '2026-09-01T10:25Z', 5]],
      days: [['A', '2026-09-01', '2026-09-03', 5]],
    }); // prettier-ignore
    expect(await windows('moved', '1 day')).toEqual([
      ['2026-09-01', '2026-09-03', 2, 1, 1],
      ['2026-09-01 00:00:00+00', '2026-09-02 00:00:00+00', 1, 2, 2],
    ]);
    expect((await windows('moved', '1h')).slice(1)).toEqual([
      ['2026-09-01 10:00:00+00', '2026-09-01 11:00:00+00', 1, 2, 2],
      ['2026-09-01 13:00:00+00', '2026-09-01 14:00:00+00', 1, 1, 1],
    ]);
  });

  it.each([['soon'], ['0h'], ['-1 day'], ['5 months'], ['1 month 1 day']])(
    'by windows of "%s" is refused',
    async (window) => {
      await expect(windows('moved', window)).rejects.toMatchObject({ code: 'bad_arguments' });
    },
  );

  it('by windows is refused on an axis of numbers, and in a zone that is none', async () => {
    await checked('numbers', { levels: [['A', 1, 2, 5]] });
    await expect(windows('numbers', '1h')).rejects.toThrow(/has a time axis/);
    await expect(windows('moved', '1d', 'Europe/Wien')).rejects.toMatchObject({ code: 'bad_arguments' });
  });

  it('by windows is exported whole', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'emend-diff-'));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const exportTo = join(dir, 'windows.csv');
    const windowsOf = { window: '1h' };
    const found = await diffBackfill(install.config, 'hours', { limit: 1, exportTo, windows: windowsOf });
    expect(found.exported).toBe(3);
    expect(readFileSync(exportTo, 'utf8').split('\n').slice(0, 2)).toEqual([
      'target,from,to,windows,keys,parts',
      'fares,2026-09-01 10:00:00+00,2026-09-01 11:00:00+00,1,1,2',
    ]);
  });

  it('after the promote is what was planned, where nothing came in between, and no row is stored twice', async () => {
    await checked('as-planned', { fares: [['P', '2026-09-01', '2026-10-01', 5]] });
    expect(await diffBackfill(install.config, 'as-planned', { limit: 10 })).toMatchObject({ plan: null });
    await promote(install.config, 'as-planned', { reason: 'right' });
    const { plan, changes } = await diffBackfill(install.config, 'as-planned', { limit: 10 });
    expect(plan).toEqual({ inAddition: 0, notNeeded: 0, differences: [] });
    expect(changes).toHaveLength(1);
  });

  it('after the promote tells what was changed in addition to the plan, what was not needed, and which corrections made it so', async () => {
    await insert('fares', [['X', '2026-09-01', '2026-10-01', 4], ['Y', '2026-09-01', '2026-10-01', 4]]); // prettier-ignore
    await insert('orders', [[71, '2026-09-01', 4], [72, '2026-09-01', 4]]); // prettier-ignore
    await install.wait();
    await checked('raced', {
      fares: [['X', '2026-09-01', '2026-10-01', 5], ['Y', '2026-09-01', '2026-10-01', 5]],
      orders: [[71, '2026-09-01', 5], [72, '2026-09-01', 5]],
    }); // prettier-ignore
    // later, so it keeps its instants: there the backfill has nothing to change
    const { rows: later } = await insert('fares', [['X', '2026-09-10', '2026-09-12', 7]]);
    // the same value over another cut changes no answer
    await insert('fares', [['Y', '2026-08-01', '2026-09-01', 4]]);
    const { rows: order } = await insert('orders', [[71, '2026-09-01', 7]]);
    await install.wait();
    await promote(install.config, 'raced', { reason: 'right' });
    const { plan, summary, changes } = await diffBackfill(install.config, 'raced', { limit: 10 });
    expect(plan).toEqual({
      inAddition: 0,
      notNeeded: 2,
      differences: [
        {
          target: 'fares', key: { route: 'X' }, validFrom: '2026-09-10 00:00:00+00', validTo: '2026-09-12 00:00:00+00',
          old: { price: '4' }, new: { price: '5' }, came: 'not needed', because: [later[0]._id],
        },
        {
          target: 'orders', key: { id: '71' }, validFrom: null, validTo: null,
          old: { ordered_at: '2026-09-01 00:00:00+00', amount: '4' }, new: { ordered_at: '2026-09-01 00:00:00+00', amount: '5' },
          came: 'not needed', because: [order[0]._id],
        },
      ],
    }); // prettier-ignore
    // what was made: the two ends of X, Y, and the other order
    expect(summary.map(({ target, changed }) => [target, changed])).toEqual([['fares', 3], ['orders', 1]]); // prettier-ignore
    expect(changes).toHaveLength(4);
    const { checks } = await showBackfill(install.config, 'raced');
    expect(checks).toContainEqual(expect.objectContaining({ target: 'fares', name: 'changes', figure: '3' }));
  });

  it('after the promote tells what a correction that was taken back meanwhile made it change in addition', async () => {
    await insert('fares', [['U', '2026-09-01', '2026-10-01', 4]]);
    await install.wait();
    await install.source.query(`select corrections.open_backfill('undone', '{fares}', 'a test', 'v1')`);
    await insert('fares', [['U', '2026-09-01', '2026-10-01', 5]], 'undone');
    // stands in the way when it is checked, as it is newer
    const { rows: newer } = await insert('fares', [['U', '2026-09-05', '2026-09-06', 9]]);
    await install.wait();
    await seal(install.config, 'undone', {});
    await undo({ config: install.config, target: 'fares', id: String(newer[0]._id), reason: 'typo' });
    await promote(install.config, 'undone', { reason: 'right' });
    const { plan } = await diffBackfill(install.config, 'undone', { limit: 10 });
    expect(plan).toMatchObject({ inAddition: 1, notNeeded: 0 });
    expect(plan!.differences[0]).toMatchObject({
      validFrom: '2026-09-05 00:00:00+00', validTo: '2026-09-06 00:00:00+00', old: { price: '4' }, new: { price: '5' },
      came: 'in addition', because: [newer[0]._id],
    }); // prettier-ignore
  });
});
