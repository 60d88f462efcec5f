import type pg from 'pg';
import { daysOfYear } from './fares.ts';

/** What the demo holds against the store: a year is an array of days for each route, and a later correction is written over. */
export interface Moment {
  readonly title: string;
  /** A settled time of belief. */
  readonly knownAt: string;
  /** The last live correction that was merged by then. */
  readonly lastLive: number;
  /** The backfills that were visible. */
  readonly visible: readonly string[];
}

type Year = Map<string, (string | undefined)[]>;

interface Piece {
  readonly route: string;
  readonly from: string;
  readonly to: string;
  readonly price: string;
}

const days = `
  route, greatest(valid_from - date '2026-01-01', 0) as from,
  least(coalesce(valid_to, 'infinity'), date '2027-01-01') - date '2026-01-01' as to, price`;

/** The log, written over one another in its order (law 1), as far as it was visible. */
export async function expectedYear(source: pg.Pool, { lastLive, visible }: Moment): Promise<Year> {
  const { rows } = await source.query<Piece>(
    `select ${days}
     from corrections.fares
     where (_backfill is null and _id <= $1) or _backfill = any ($2)
     order by _id`,
    [lastLive, visible],
  );
  return paint(rows);
}

/** The same of the store, by the function that an analyst would ask. */
export async function answeredYear(store: pg.Pool, { knownAt }: Moment): Promise<Year> {
  const { rows } = await store.query<Piece>(`select ${days} from emend.fares_as_of($1::timestamptz)`, [
    knownAt,
  ]);
  return paint(rows);
}

function paint(pieces: readonly Piece[]): Year {
  const year: Year = new Map();
  for (const { route, from, to, price } of pieces) {
    if (!year.has(route)) year.set(route, new Array<string | undefined>(daysOfYear).fill(undefined));
    year.get(route)!.fill(price, Number(from), Number(to));
  }
  return year;
}

/** The first day on which two years differ, in words. */
export function firstDifference(expected: Year, answered: Year): string | undefined {
  for (const [route, wanted] of expected) {
    const given = answered.get(route) ?? [];
    const day = wanted.findIndex((price, place) => price !== given[place]);
    if (day >= 0)
      return `${route}, day ${day}: ${given[day] ?? 'nothing'} instead of ${wanted[day] ?? 'nothing'}`;
  }
  const more = [...answered.keys()].find((route) => !expected.has(route));
  return more === undefined ? undefined : `${more} is not in the log`;
}
