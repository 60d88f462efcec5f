import type { Correction } from '../data/corrections.ts';
import { paintTimeline } from '../data/painted-timeline.ts';
import { firstPieces, timelineColumns, timelineDdl } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';
import { oneStatement } from './one-statement.ts';

/**
 * The timeline work in one statement, as a specialist would write it for this table alone, and in two forms: one is right
 * in any order of delivery, as emend is; the other trusts that what comes later is newer than all that stands.
 */
export function statementTimeline(
  name: string,
  options: { keys: number; batchRows: number; anyOrder: boolean },
): Contestant<Correction[]> {
  const { keys, batchRows, anyOrder } = options;
  return oneStatement(name, {
    tables: {
      name: `plain timeline of ${keys} keys`,
      statements: [
        timelineDdl('text'),
        'alter table public.prices add column _version bigint not null',
        `insert into public.prices ${firstPieces(keys, 'text')}`,
      ],
    },
    sql: anyOrder ? anyOrderSql(arrivedSql) : inOrderSql,
    columns: { ...timelineColumns('text'), _version: ({ id }) => String(id) },
    batchRows,
    expected: () => paintTimeline(keys, 'text'),
  });
}

const arrivedSql = `
    select a.product_id, daterange(a.valid_from::date, a.valid_to::date) as period, a.price::numeric, a._version::bigint
    from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
      as a (product_id, valid_from, valid_to, price, _version)`;

/**
 * Every claim keeps what no later one of the key covers; the pieces that changed are taken out and written again.
 *
 * @param arrived a select of product_id, period, price and _version
 */
export const anyOrderSql = (arrived: string): string => `
  with arrived as materialized (${arrived}),
  reach as materialized (
    select product_id, unnest(range_agg(period)) as part from arrived group by product_id
  ),
  standing as materialized (
    select distinct on (p.ctid) p.ctid, p.*
    from reach r
    join public.prices p on p.product_id = r.product_id and p.valid_from < upper(r.part) and p.valid_to > lower(r.part)
  ),
  claims as (
    select ctid, product_id, daterange(valid_from, valid_to) as period, price, _version from standing
    union all
    select null, product_id, period, price, _version from arrived
  ),
  weighed as materialized (
    select c.*,
      c.period::datemultirange - coalesce(range_agg(c.period) over (
        partition by c.product_id order by c._version desc rows between unbounded preceding and 1 preceding), '{}') as won
    from claims c
  ),
  removed as (
    delete from public.prices
    where ctid = any (array(select ctid from weighed where ctid is not null and won <> period::datemultirange))
    returning 1
  )
  insert into public.prices (product_id, valid_from, valid_to, price, _version)
  select w.product_id, lower(part), upper(part), w.price, w._version
  from weighed w cross join lateral unnest(w.won) as part
  where (w.ctid is null or w.won <> w.period::datemultirange) and (select count(*) from removed) >= 0`;

/** What stands loses what the arrived cover; only among themselves the arrived have to be put in order. */
const inOrderSql = `
  with arrived as materialized (${arrivedSql}),
  covered as materialized (
    select product_id, range_agg(period) as parts from arrived group by product_id
  ),
  removed as (
    delete from public.prices p
    using covered c
    where p.product_id = c.product_id and p.valid_from < upper(c.parts) and p.valid_to > lower(c.parts)
      and c.parts && daterange(p.valid_from, p.valid_to)
    returning p.*, c.parts
  ),
  pieces as (
    select r.product_id, r.price, r._version, unnest(datemultirange(daterange(r.valid_from, r.valid_to)) - r.parts) as part
    from removed r
    union all
    select a.product_id, a.price, a._version,
      unnest(a.period::datemultirange - coalesce(range_agg(a.period) over (
        partition by a.product_id order by a._version desc rows between unbounded preceding and 1 preceding), '{}'))
    from arrived a
  )
  insert into public.prices (product_id, valid_from, valid_to, price, _version)
  select p.product_id, lower(p.part), upper(p.part), p.price, p._version
  from pieces p
  where (select count(*) from removed) >= 0`;
