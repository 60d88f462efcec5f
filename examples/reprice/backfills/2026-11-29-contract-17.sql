-- target: fares
-- reason: contract 17 lowers the fares of KL in September by 12 %
-- logic-version: 1
-- origin: contract 17, paragraph 2
-- from: 2026-09-01
-- to: 2026-10-01
-- where: route like 'KL-%'
-- on: store
-- check.every_route_has_a_fare: select route from public.fares group by route
--   having count(*) filter (where valid_to = 'infinity') <> 1

select
  route,
  greatest(valid_from, date '2026-09-01') as valid_from,
  least(valid_to, date '2026-10-01') as valid_to,
  round(price * 0.88, 2) as price
from public.fares
where route like 'KL-%' and valid_from < date '2026-10-01' and valid_to > date '2026-09-01'
order by route, valid_from
