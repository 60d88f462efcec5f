import type { ClientBase, Pool } from 'pg';
import { pathOf } from '../config/promote-times.ts';
import type { PromoteSpan } from '../config/promote-times.ts';

/** When a promote may begin, as far as the configuration says. */
export interface PromoteTime {
  /** The first time at which it may; null: at none within 400 days. */
  readonly next: string | null;
  /** `next` is now. */
  readonly isNow: boolean;
  /** Where the times are stated that keep it from beginning now, or at `notBefore`: `promote`, `targets.fares.promote`. */
  readonly closedBy: readonly string[];
}

/** Those that hold for a backfill of these targets. */
export function spansOf(spans: readonly PromoteSpan[], targets: readonly string[]): PromoteSpan[] {
  return spans.filter(({ target }) => target === null || targets.includes(target));
}

/**
 * The first time from now on, by the store's clock, at which all windows are open and no blackout holds. They go by the clock on
 * the wall: 02:30 comes twice on one night of the year, and on another one never. What that clock shows is Postgres' to say,
 * and so is which days have another length.
 *
 * @param notBefore as Postgres reads a timestamptz; null: now
 * @param now for tests; null: the store's clock
 */
export async function readPromoteTime(
  store: Pool | ClientBase,
  spans: readonly PromoteSpan[],
  notBefore: string | null,
  now: string | null = null,
): Promise<PromoteTime> {
  const stated = spans.map(({ target, ...span }) => ({ ...span, place: pathOf(target) }));
  const { rows } = await store.query<{ time: string }>(promoteTimeSql, [
    JSON.stringify(stated),
    notBefore,
    now,
  ]);
  return JSON.parse(rows[0]!.time) as PromoteTime;
}

/** How far ahead an opening is looked for, in days: what comes once a year is found. */
const daysAhead = 400;

/** Where the stretch of a span that began on a day begins and ends, on the wall. */
const begins = 'd.day + s."from"';
const ends = `d.day + s."to" + case when s."to" <= s."from" then interval '1 day' else interval '0' end`;

/** Places whose times keep a promote from beginning at `instant`: none of its windows holds, or one of its blackouts does. */
function closedAt(instant: string): string {
  return `
    select h.place
    from (
      select s.place, s."isBlackout" as is_blackout, exists (
        select
        from (values (w.wall::date), (w.wall::date - 1)) as d (day)
        where w.wall >= ${begins} and w.wall < ${ends}
          and (s.days is null or extract(isodow from d.day)::int = any (s.days))
          and (s.dates is null or s.dates @> d.day) and not s."except" @> d.day
      ) as holds
      from span s
      cross join lateral (select ${instant} at time zone s."timeZone" as wall) as w
    ) as h
    group by h.place
    having bool_or(h.is_blackout and h.holds)
      or (bool_or(not h.is_blackout) and not bool_or(not h.is_blackout and h.holds))`;
}

/** $1: the spans; $2: not before; $3: now. Candidates are tried in their order until one is open. */
const promoteTimeSql = `
  with span as materialized (
    select s.*
    from jsonb_to_recordset($1::jsonb) as s (
      place text, "isBlackout" boolean, "timeZone" text, days int[], dates datemultirange, "except" datemultirange, "from" time, "to" time
    )
  ),
  asked as materialized (
    select n.now, greatest(n.now, $2::timestamptz) as at
    from (select coalesce($3::timestamptz, clock_timestamp()) as now offset 0) as n
  ),
  day as materialized (
    select z.zone, ((a.at at time zone z.zone)::date + n.n) as day
    from asked a
    cross join (select distinct s."timeZone" from span s) as z (zone)
    cross join generate_series(-1, ${daysAhead}) as n (n)
  ),
  candidate as (
    select a.at from asked a
    union
    -- something opens where a window begins or a blackout ends
    select (case when s."isBlackout" then ${ends} else ${begins} end) at time zone s."timeZone"
    from span s
    join day d on d.zone = s."timeZone"
    union
    -- or where the clock on the wall is set: in any minute of a day that is longer or shorter than others
    select generate_series(d.day::timestamp at time zone d.zone, (d.day + 1)::timestamp at time zone d.zone, interval '1 minute')
    from day d
    where ((d.day + 1)::timestamp at time zone d.zone) - (d.day::timestamp at time zone d.zone) <> interval '24 hours'
  ),
  opening as (
    select c.at
    from (select c.at from candidate c, asked a where c.at >= a.at order by c.at) as c
    where not exists (${closedAt('c.at')})
    limit 1
  )
  select jsonb_build_object(
    'next', o.at::text,
    'isNow', coalesce(o.at = a.now, false),
    'closedBy', coalesce((select jsonb_agg(p.place order by p.place) from (${closedAt('a.at')}) as p), '[]')
  )::text as time
  from asked a
  left join opening o on true`;
