import { createPool } from '../../src/db/pool.ts';
import { fill } from '../data/emend-store.ts';
import { expectReport, reportSql, yearLayout } from '../data/year-of-sales.ts';
import type { RouteMonth, Year } from '../data/year-of-sales.ts';
import type { Contestant } from '../harness/contestant.ts';

/** What one does without knowing which days change: the fare is corrected, and the whole report computed anew and swapped in. */
export function yearAnew(name: string, year: Year): Contestant<RouteMonth> {
  const layout = yearLayout(year);
  return {
    name,
    open: async (servers) => {
      const url = await servers.copyOf(layout.name, (template) => fill(template, layout));
      const pool = createPool({ url, applicationName: 'bench', max: 1 });
      for (const setting of ['statement_timeout = 0', `work_mem = '256MB'`, `maintenance_work_mem = '512MB'`])
        await pool.query(`set ${setting}`);
      return {
        prepare: ({ route, from, to, price }) => ({
          rows: 1,
          run: async () => {
            const start = performance.now();
            await pool.query(correctFare, [route, from, to, price]);
            await pool.query(`
              begin;
              create table public.report_new (like public.report);
              insert into public.report_new ${reportSql('true')};
              alter table public.report_new add primary key (route, day);
              drop table public.report;
              alter table public.report_new rename to report;
              commit`);
            const microseconds = (performance.now() - start) * 1_000;
            await expectReport(pool, { route, from, to, price });
            return microseconds;
          },
        }),
        verify: async () => {}, // each round was
        close: async () => {
          await pool.end();
          await servers.drop(url);
        },
      };
    },
  };
}

/** The weeks that the month cuts keep what is outside of it. */
const correctFare = `
  with gone as (
    delete from public.fares where route = $1 and valid_from < $3::date and valid_to > $2::date returning *
  )
  insert into public.fares
  select route, valid_from, $2::date, price, _version, _known_from, _backfill from gone where valid_from < $2::date
  union all
  select $1, $2::date, $3::date, $4::numeric, -1, now(), null where (select count(*) from gone) >= 0
  union all
  select route, greatest(valid_from, $3::date), valid_to, price, _version, _known_from, _backfill from gone where valid_to > $3::date`;
