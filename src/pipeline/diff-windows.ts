import type { Pool } from 'pg';
import type { Column, Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';

/** Windows of valid time, one after the other, of which each has the same number of changes. */
export interface ChangedWindows {
  readonly target: string;
  /** The start of the first one, and the end of the last one. */
  readonly from: string;
  readonly to: string;
  /** How many they are; null where a change has no end, or no start. */
  readonly windows: number | null;
  /** Keys that have a change in each of them, and parts of valid time. */
  readonly keys: number;
  readonly parts: number;
}

export interface WindowOptions {
  /** Their width, as Postgres reads an interval: `1h`, `1d`, `1 month`. */
  readonly window: string;
  /** Whose midnight it is on a timestamptz axis; default UTC. */
  readonly timeZone?: string | undefined;
}

/**
 * Which windows of valid time promoting changes (or has changed): what a report by hour or month has to compute anew. They lie
 * as `date_trunc` and `date_bin` cut: days at midnight, weeks on Monday. Open periods are not cut up, so that the answer is as
 * short as the diff.
 *
 * @throws EmendError `bad_arguments` for a width that cannot be read, or where no target has a time axis
 */
export async function* readChangedWindows(
  store: Pool,
  backfill: string,
  targets: readonly Target[],
  { window, timeZone = 'UTC' }: WindowOptions,
): AsyncGenerator<ChangedWindows[]> {
  const width = await readWidth(store, window);
  const timed = targets.filter((target) => timeOf(target) !== null);
  if (timed.length === 0) {
    throw new EmendError('bad_arguments', `no target of backfill ${backfill} has a time axis (--window)`, {
      remedy: 'Leave --window out: its valid time is of numbers, or it has no event time.',
    });
  }
  for (const target of timed) {
    const values = width.months === null ? [backfill, target.name, window] : [backfill, target.name];
    const { rows } = await store
      .query<{ windows: string }>(windowsSql(target, timeOf(target)!, width, timeZone), values)
      .catch((error: unknown) => {
        if (!sqlState(error)?.startsWith('22')) throw error;
        throw new EmendError('bad_arguments', `the windows cannot be cut: ${(error as Error).message}`, {
          remedy: "Give --time-zone as 'UTC', or as in 'Europe/Vienna'.",
          cause: error,
        });
      });
    yield rows.map((row) => JSON.parse(row.windows) as ChangedWindows);
  }
}

/** The column that places a change in time; null where there is none, or it is of numbers. */
function timeOf(target: Target): Column | null {
  const column = target.kind === 'timeline' ? target.period.from : target.eventTime;
  return column && /^(timestamp|date)/.test(column.baseType) ? column : null;
}

interface Width {
  /** 1, 3 or 12; null: it is of days or less. */
  readonly months: number | null;
  /** Whole days. */
  readonly isOfDays: boolean;
}

async function readWidth(store: Pool, window: string): Promise<Width> {
  const { rows } = await store
    .query<{ width: string }>(
      `select jsonb_build_object(
         'months', extract(year from w.width) * 12 + extract(month from w.width),
         'days', extract(day from w.width),
         'rest', extract(epoch from w.width - date_trunc('day', w.width))
       )::text as width
       from (select $1::interval as width offset 0) as w`,
      [window],
    )
    .catch((error: unknown) => {
      if (!sqlState(error)?.startsWith('22')) throw error;
      throw noWidth(window, error);
    });
  const { months, days, rest } = JSON.parse(rows[0]!.width) as Record<'months' | 'days' | 'rest', number>;
  const isOfMonths = [1, 3, 12].includes(months) && days === 0 && rest === 0;
  if (!isOfMonths && (months !== 0 || days < 0 || rest < 0 || days + rest === 0)) throw noWidth(window);
  return { months: isOfMonths ? months : null, isOfDays: rest === 0 };
}

function noWidth(window: string, cause?: unknown): EmendError {
  return new EmendError('bad_arguments', `"${window}" is no width of windows (--window)`, {
    remedy: 'Give hours, days or weeks as in 1h, 1d, 1 week; or 1 month, 3 months, 1 year.',
    cause,
  });
}

const units: Readonly<Record<number, string>> = { 1: 'month', 3: 'quarter', 12: 'year' };

/** $1: the backfill; $2: the target; $3: the width, unless it is of months. */
function windowsSql(target: Target, time: Column, { months, isOfDays }: Width, timeZone: string): string {
  const isZoned = time.baseType === 'timestamp with time zone';
  const zone = literal(timeZone);
  // days are of the zone; what is less lies from its midnight on, wherever its clock is set
  const within = isOfDays ? zone : `'UTC'`;
  const origin =
    isZoned && !isOfDays
      ? `(timestamp '2001-01-01' at time zone ${zone}) at time zone 'UTC'`
      : `timestamp '2001-01-01'`; // a Monday
  const width = months === null ? '$3::interval' : `interval '${months} months'`;
  const wall = (text: string): string =>
    isZoned ? `(${text}::timestamptz at time zone ${within})` : `${text}::timestamp`;
  const cut = (at: string): string =>
    months === null ? `date_bin(${width}, ${at}, ${origin})` : `date_trunc('${units[months]!}', ${at})`;
  const told = (at: string): string =>
    isZoned
      ? `(${at} at time zone ${within})::text`
      : `${at}${time.baseType === 'date' && isOfDays ? '::date' : ''}::text`;
  const count =
    months === null
      ? `(extract(epoch from s.until - s.at) / extract(epoch from ${width}))`
      : `((extract(year from s.until) - extract(year from s.at)) * 12 + extract(month from s.until) - extract(month from s.at)) / ${months}`;
  return `
    with change as (
      select c.*, c.ctid as place from emend.backfill_change c where c.backfill = $1 and c.target = $2 and c.side is distinct from 'planned'
    ),
    stretch as (
      ${target.kind === 'timeline' ? `select c.place, c.key, ${wall('c.valid_from')} as first, ${wall('c.valid_to')} as last from change c` : eventsSql(wall, time)}
    ),
    part as materialized (
      select distinct s.place, s.key, ${cut('s.first')} as at,
        case when s.last = ${cut('s.last')} and s.last > s.first then s.last else ${cut('s.last')} + ${width} end as until
      from stretch s
    ),
    -- a key that has two parts in a window is one key
    of_key as (
      select unnest(range_agg(tsrange(p.at, p.until))) as during from part p group by p.key
    ),
    edge as (
      select p.at, 1 as parts, 0 as keys from part p
      union all
      select p.until, -1, 0 from part p
      union all
      select lower(k.during), 0, 1 from of_key k
      union all
      select upper(k.during), 0, -1 from of_key k
    ),
    step as (
      select e.at, lead(e.at) over w as until, sum(sum(e.parts)) over w as parts, sum(sum(e.keys)) over w as keys
      from edge e
      group by e.at
      window w as (order by e.at)
    )
    select jsonb_build_object(
      'target', $2::text, 'from', ${told('s.at')}, 'to', ${told('s.until')},
      'windows', case when isfinite(s.at) and isfinite(s.until) then round(${count}) end,
      'keys', s.keys, 'parts', s.parts
    )::text as windows
    from step s
    where s.parts > 0
    order by s.at`;
}

/** A fact is in the window that it leaves, and in the one that it comes to; once where both are the same. */
function eventsSql(wall: (text: string) => string, time: Column): string {
  const name = literal(time.name);
  return `
      select c.place, c.key, ${wall('e.at')} as first, ${wall('e.at')} as last
      from change c
      cross join lateral (
        select a.answer ->> ${name} as at from (values (c.key || c.old), (c.key || c.new)) as a (answer) where a.answer is not null
      ) as e`;
}
