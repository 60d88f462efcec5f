import { defineBackfill } from 'emend';

/** The same contract, with its third paragraph: fares below 90 stay, and none falls below 90. */
export default defineBackfill({
  targets: ['fares'],
  boundary: { fares: { from: '2026-09-01', to: '2026-10-01', where: `route like 'KL-%'` } },
  reason: 'contract 17, now with its floor of 90',
  logicVersion: '2',
  origin: { input: 'contract 17, paragraphs 2 and 3', files: ['worked-out-by-hand.csv'] },
  rows: {
    on: 'store',
    sql: `
      select
        route,
        greatest(valid_from, date '2026-09-01') as valid_from,
        least(valid_to, date '2026-10-01') as valid_to,
        greatest(round(price * 0.88, 2), 90) as price
      from public.fares
      where route like 'KL-%' and price >= 90 and valid_from < date '2026-10-01' and valid_to > date '2026-09-01'
      order by route, valid_from`,
  },
  checks: {
    sql: {
      every_route_has_a_fare: `
        select route from public.fares group by route having count(*) filter (where valid_to = 'infinity') <> 1`,
    },
    samples: 'worked-out-by-hand.csv',
  },
});
