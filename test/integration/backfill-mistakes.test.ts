/**
 * How a backfill that is run as a batch job goes wrong, one mistake a test, and where emend refuses or catches it. The story
 * and its commands are in docs/backfills.md.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { runBackfill } from '../../src/pipeline/run-backfill.ts';
import type { BackfillRun } from '../../src/pipeline/run-backfill.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }),
    sales: facts('public.sales', { key: ['id'], eventTime: 'sold_at' }),
    visits: facts('public.visits', { key: ['shop', 'at'], eventTime: 'at' }),
  },
});

const ddl = `
  create table public.fares (route text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.sales (id bigint not null, sold_at timestamptz not null, amount numeric);
  create table public.visits (shop integer not null, at timestamptz not null, people integer)`;

describe('a batch job that', () => {
  let install: Install;
  let folder: string;
  let route: string;
  let count = 0;
  beforeAll(async () => {
    install = await createInstall('backfill mistakes', { ddl, targets });
    folder = mkdtempSync(join(tmpdir(), 'emend-mistakes-'));
    await install.start();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** A route with a fare to the end of September, and one from October on, that is open. */
  beforeEach(async () => {
    route = `R${++count}`;
    await install.source.query(
      `insert into corrections.fares (route, valid_from, valid_to, price) values ($1, '2026-01-01', '2026-10-01', 100), ($1, '2026-10-01', null, 200)`,
      [route],
    );
    await install.wait();
  });

  const run = (header: string, select: string): Promise<BackfillRun> => {
    const file = join(folder, `mistake-${count}.sql`);
    writeFileSync(file, `-- reason: a mistake\n-- logic-version: v1\n${header}\n\n${select}\n`);
    return runBackfill(install.config, file, { promote: true, timeoutMs: 30_000 });
  };
  const failing = ({ checks }: BackfillRun) =>
    checks.filter(({ verdict }) => verdict === 'fail').map(({ name, figure }) => `${name} ${figure}`);
  const monthsOf = (checks: BackfillRun['checks']) => checks.flatMap(({ months = [] }) => months);
  const held = async () =>
    (
      await install.store.query(
        `select valid_from, valid_to, price from public.fares where route = $1 order by valid_from`,
        [route],
      )
    ).rows;
  const before = [
    { valid_from: '2026-01-01', valid_to: '2026-10-01', price: '100' },
    { valid_from: '2026-10-01', valid_to: 'infinity', price: '200' },
  ];

  it('writes the time at which it runs as the time at which things were true is stopped by valid_at_load_time', async () => {
    const fares = await run(
      '-- target: fares',
      `select '${route}' as route, current_date as valid_from, 120 as price`,
    );
    expect(fares).toMatchObject({ state: 'checked', problem: expect.stringMatching(/valid_at_load_time/) });
    expect(failing(fares)).toEqual(['valid_at_load_time 1']);
    expect(await held()).toEqual(before);

    route = `R${++count}`;
    const sales = await run(
      '-- target: sales',
      `select n as id, now() as sold_at, 1 as amount from generate_series(1, 10) n`,
    );
    expect(failing(sales)).toEqual(['valid_at_load_time 1']);
    expect((await install.store.query(`select from public.sales`)).rows).toEqual([]);
  });

  it('wipes the log is refused; one that wipes the table is found by verify, which puts back what it took', async () => {
    for (const wipe of ['delete from', 'truncate'])
      await expect(install.source.query(`${wipe} corrections.fares`)).rejects.toThrow('append-only');
    await install.store.query(`delete from public.fares where route = $1`, [route]);
    const [found] = await verify(install.config, { target: 'fares', key: [route] });
    expect(found!.found).toEqual({ missing: 2 });
    await verify(install.config, { target: 'fares', key: [route], repair: true });
    expect(await held()).toEqual(before);
  });

  it('wipes by taking everything back, and then writes less than there was, is stopped by answers_lost_from_now_on', async () => {
    const ran = await run(
      '-- target: fares',
      `select '${route}' as route, '-infinity'::date as valid_from, null::date as valid_to, null::numeric as price, 'retract' as _op
       union all select '${route}', '2026-01-01', '2026-10-01', 120, 'upsert'`,
    );
    expect(failing(ran)).toEqual(['answers_lost_from_now_on 1', 'contradictions 1']);
    expect(await held()).toEqual(before);
  });

  it('lets a period run into the next one is stopped by outside_boundary; accepted, the pieces do not overlap', async () => {
    const header = `-- target: fares\n-- from: 2026-09-01\n-- to: 2026-10-01`;
    const select = `select '${route}' as route, date '2026-09-01' as valid_from, date '2026-10-15' as valid_to, 120 as price`;
    const stopped = await run(header, select);
    expect(failing(stopped)).toEqual(['outside_boundary 1']);
    expect(await held()).toEqual(before);

    const first = route;
    route = `R${++count}`;
    const accepted = await run(
      `${header}\n-- accept.outside_boundary: the contract reaches into October`,
      select,
    );
    expect(accepted).toMatchObject({ state: 'promoted' });
    expect(accepted.checks.find(({ name }) => name === 'overlaps')).toMatchObject({ figure: '0' });
    route = first;
    expect(await held()).toEqual([
      { valid_from: '2026-01-01', valid_to: '2026-09-01', price: '100' },
      { valid_from: '2026-09-01', valid_to: '2026-10-15', price: '120' },
      { valid_from: '2026-10-15', valid_to: 'infinity', price: '200' },
    ]);
  });

  it('states two periods of one key that overlap is stopped by contradictions', async () => {
    const ran = await run(
      '-- target: fares',
      `select '${route}' as route, date '2026-02-01' as valid_from, date '2026-03-15' as valid_to, 120 as price
       union all select '${route}', '2026-03-01', '2026-04-01', 130`,
    );
    expect(failing(ran)).toEqual(['contradictions 1']);
    expect(await held()).toEqual(before);
  });

  it('ends periods that were open, so that a report of the present loses rows, is stopped by answers_lost_from_now_on and by a check of its own', async () => {
    const report = `select count(*)::text as routes from public.fares where valid_to = 'infinity'`;
    const rows = (await install.store.query(report)).rows;
    const ran = await run(
      `-- target: fares
-- check.every_route_has_a_fare: select '${route}' as route
--   where not exists (select from public.fares f where f.route = '${route}' and f.valid_to = 'infinity')`,
      `select '${route}' as route, current_date - 3 as valid_from, null::date as valid_to, null::numeric as price, 'retract' as _op`,
    );
    expect(failing(ran)).toEqual(['answers_lost_from_now_on 1', 'every_route_has_a_fare 1']);
    expect((await install.store.query(report)).rows).toEqual(rows);
  });

  it('has half of its input is told by the keys against today, and stopped where a threshold says so', async () => {
    const other = `${route}-b`;
    await install.source.query(
      `insert into corrections.fares (route, valid_from, valid_to, price) values ($1, '2026-01-01', '2026-10-01', 100)`,
      [other],
    );
    await install.wait();
    const header = `-- target: fares\n-- from: 2026-09-01\n-- to: 2026-10-01\n-- where: route like '${route}%'`;
    const select = `select '${route}' as route, date '2026-09-01' as valid_from, date '2026-10-01' as valid_to, 120 as price`;
    const stopped = await run(`${header}\n-- threshold.keys_against_today: 0.1`, select);
    // the pieces that reach into September, one a route; of October none
    expect(failing(stopped)).toEqual(['keys_against_today 2 -> 1']);
    expect(stopped.checks).toContainEqual(
      expect.objectContaining({ name: 'rows_against_today', figure: '2 -> 1', verdict: 'note' }),
    );
    expect(await held()).toEqual(before);
  });

  it('of facts that are moved out of their day is told by the rows against today', async () => {
    await install.source.query(
      `insert into corrections.sales (id, sold_at, amount) select 1000 + n, '2026-05-01 12:00Z', 1 from generate_series(1, 4) n`,
    );
    await install.wait();
    const header = `-- target: sales\n-- from: 2026-05-01\n-- to: 2026-05-02\n-- threshold.rows_against_today: 0.5`;
    const ran = await run(
      header,
      `select 1001 as id, timestamptz '2026-05-01 13:00Z' as sold_at, 1 as amount`,
    );
    expect(failing(ran)).toEqual(['rows_against_today 4 -> 1']);
  });

  it('of facts that moves a month into the next one, which no total shows, is told month by month', async () => {
    await install.source.query(
      `insert into corrections.sales (id, sold_at, amount) select 2000 + n, '2026-05-31 23:30Z', 10 from generate_series(1, 2) n`,
    );
    await install.wait();
    const { checks } = await run(
      '-- target: sales',
      `select 2000 + n as id, timestamptz '2026-06-01 01:30Z' as sold_at, 10 as amount from generate_series(1, 2) n`,
    );
    const figureOf = (wanted: string) => checks.find(({ name }) => name === wanted)?.figure;
    expect(figureOf('sum:amount')).toBe('20 -> 20');
    expect(figureOf('changes_by_month')).toBe('2026-05 to 2026-06');
    expect(monthsOf(checks)).toEqual([
      { month: '2026-05', rows: [2, 0], sums: { amount: ['20', null] } },
      { month: '2026-06', rows: [0, 2], sums: { amount: [null, '20'] } },
    ]);
  });

  it('of facts whose event time is in their key is told month by month too', async () => {
    const { checks } = await run(
      '-- target: visits',
      `select 1 as shop, make_timestamptz(2026, n, 1, 12, 0, 0, 'UTC') as at, n as people from generate_series(1, 3) n`,
    );
    expect(monthsOf(checks).map(({ month, sums }) => [month, sums['people']])).toEqual([
      ['2026-01', [null, '1']],
      ['2026-02', [null, '2']],
      ['2026-03', [null, '3']],
    ]);
  });

  it('prices every month anew is told month by month, also where a period has no start', async () => {
    await install.source.query(
      `insert into corrections.fares (route, valid_from, valid_to, price) values ($1, '-infinity', '2026-01-01', 50)`,
      [route],
    );
    await install.wait();
    const periods = `(values (date '-infinity', date '2026-02-01', 60), ('2026-09-01', '2026-10-01', 120))`;
    const { checks } = await run(
      '-- target: fares',
      `select '${route}' as route, p.* from ${periods} as p (valid_from, valid_to, price)`,
    );
    expect(monthsOf(checks)).toEqual([
      { month: null, rows: [1, 1], sums: { price: ['50', '60'] } },
      { month: '2026-01', rows: [1, 1], sums: { price: ['100', '60'] } },
      { month: '2026-09', rows: [1, 1], sums: { price: ['100', '120'] } },
    ]);
  });

  it.each([
    ['2026-09-20', '2026-10-01', '1', 'where two periods touched'],
    ['2026-03-01', '2026-04-01', '1', 'in the middle of a period'],
    ['2025-01-01', '2026-02-01', '0', 'at the edge, which opens none'],
  ])('takes [%s, %s) away has %s gap, %s', async (from, to, gaps) => {
    const select = `select '${route}' as route, date '${from}' as valid_from, date '${to}' as valid_to, null::numeric as price, 'retract' as _op`;
    const ran = await run(
      '-- target: fares\n-- threshold.gaps_opened: 0\n-- threshold.null_share: 1',
      select,
    );
    expect(ran.checks.find(({ name }) => name === 'gaps_opened')).toMatchObject({
      figure: gaps,
      verdict: gaps === '0' ? 'pass' : 'fail',
    });
    expect(ran.state).toBe(gaps === '0' ? 'promoted' : 'checked');
  });
});
