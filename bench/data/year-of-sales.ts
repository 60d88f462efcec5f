import type { Pool } from 'pg';
import { ledgerOf } from './emend-store.ts';
import type { Layout } from './emend-store.ts';

/**
 * A year of sales over fares by the week, and a report on them: what was sold, of a route on a day, at the fare of the day. One
 * contract turns out to have another price for one route's month.
 */
export interface Year {
  readonly routes: number;
  readonly sales: number;
}

/** The route and the month that a round corrects. */
export interface RouteMonth {
  readonly route: string;
  readonly from: string;
  readonly to: string;
  readonly price: string;
}

const weeks = 53;
const firstDay = `date '2025-01-01'`;

export function routeMonth(round: number): RouteMonth {
  const month = 1 + (round % 11);
  const day = (of: number) => `2025-${String(of).padStart(2, '0')}-01`;
  return { route: `R${round * 7}`, from: day(month), to: day(month + 1), price: `${900 + round}.50` };
}

export function yearLayout({ routes, sales }: Year): Layout {
  return {
    name: `a year of ${sales} sales of ${routes} routes`,
    ddl: `
      create table public.fares (
        route text not null,
        valid_from date not null,
        valid_to date not null,
        price numeric(10, 2) not null,
        primary key (route, valid_from)
      );
      create table public.sales (sale_id bigint not null, route text not null, sold_on date not null);
      create table public.report (route text not null, day date not null, sold bigint not null, revenue numeric not null)`,
    declaration: {
      name: 'fares',
      kind: 'timeline',
      schema: 'public',
      table: 'fares',
      key: ['route'],
      period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
      eventTime: null,
      version: null,
      exclusion: false,
      allow: [],
    },
    load: [
      `insert into public.fares (route, valid_from, valid_to, price, _version, _known_from)
       select 'R' || r, ${firstDay} + w * 7, ${firstDay} + (w + 1) * 7, 100 + (r * 31 + w * 17) % 400, r * ${weeks} + w + 1,
         timestamptz '2026-01-01' + (r * ${weeks} + w + 1) * interval '1 microsecond'
       from generate_series(0, ${routes} - 1) r cross join generate_series(0, ${weeks} - 1) w`,
      ledgerOf('fares', routes * weeks),
      `insert into public.sales
       select n, 'R' || (hashint8extended(n, 1) & 1048575) % ${routes}, ${firstDay} + ((hashint8extended(n, 2) & 1048575) % 365)::int
       from generate_series(1, ${sales}::bigint) n`,
      `create index on public.sales (route, sold_on)`,
      `insert into public.report ${reportSql('true')}`,
      `alter table public.report add primary key (route, day)`,
    ],
  };
}

/** SQL: the report, of the sales that a condition on `s` chooses. */
export function reportSql(condition: string): string {
  return `
    select s.route, s.sold_on as day, count(*) as sold, sum(f.price) as revenue
    from public.sales s
    join public.fares f on f.route = s.route and f.valid_from <= s.sold_on and s.sold_on < f.valid_to
    where ${condition}
    group by s.route, s.sold_on`;
}

/** @throws unless the month has the corrected price on every day, and the report is what its sales and fares say */
export async function expectReport(pool: Pool, { route, from, to, price }: RouteMonth): Promise<void> {
  const { rows } = await pool.query<{ wrong: string; days: string }>(
    `select
       (select count(*) from (${reportSql('s.route = $1')}) as e full join (select * from public.report where route = $1) as r using (route, day)
        where (e.sold, e.revenue) is distinct from (r.sold, r.revenue))::text as wrong,
       (select count(*) from public.report r
        where r.route = $1 and r.day >= $2::date and r.day < $3::date and r.revenue <> r.sold * $4::numeric)::text as days`,
    [route, from, to, price],
  );
  if (rows[0]!.wrong !== '0' || rows[0]!.days !== '0')
    throw new Error(
      `the report of ${route} has ${rows[0]!.wrong} wrong days, ${rows[0]!.days} without the new price`,
    );
}
