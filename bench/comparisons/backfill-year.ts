import { yearAnew } from '../contestants/year-anew.ts';
import { yearByBackfill } from '../contestants/year-by-backfill.ts';
import { routeMonth } from '../data/year-of-sales.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';

const corrected = 'checked and promoted, and the days of the report that it changes';
const anew = 'the whole report computed anew in SQL, and swapped';

/** What a backfill is made for: one contract was wrong, in one month. */
export const backfillYear: Comparison = {
  name: 'backfill-year',
  title: "One route's month of 10,000,000 sales in a year, corrected in the report on all of them",
  measure: (servers, { quick }) => {
    const year = quick ? { routes: 100, sales: 20_000 } : { routes: 1_000, sales: 10_000_000 };
    return measure(servers, {
      warmUp: quick ? 0 : 1,
      rounds: quick ? 2 : 5,
      contestants: [yearByBackfill(corrected, year), yearAnew(anew, year)],
      work: routeMonth,
    });
  },
  ratios: [{ of: corrected, to: anew, atMost: 1 / 50 }],
};
