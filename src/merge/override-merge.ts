import { ident } from '../db/identifier.ts';
import type { TimelineTarget } from '../change/target.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';
import { columnLists } from './column-lists.ts';
import type { FoldForm } from './fold-form.ts';
import { anyTombstone, lookUp } from './look-up.ts';
import { freshRows } from './record-merged.ts';

/**
 * The fold of corrections that state their whole period into what stands, as common table expressions.
 *
 * All claims on a key, those that stand and those that arrived, are put in order of version; each keeps of its
 * period what no higher one covers. As a multirange that is a subtraction, and its ranges are the canonical pieces (law 3):
 * touching ranges of one correction are one. No claim is joined with another, so the cost follows the rows of a key.
 */
export function overrideFold(target: TimelineTarget, form: FoldForm): string {
  const columns = columnLists(target);
  const { from, to, rangeType } = target.period;
  const [f, t] = [ident(from.name), ident(to.name)];
  const end = toAxis(target.period, `s.${t}`);
  const tombstone = ownObject(target, 'tombstone');
  const multirange = rangeType.replace('range', 'multirange');
  const period = `${rangeType}(c.${f}, c.${t})`;

  return `
    ${freshRows(target, form)},
    told as materialized (select ${form.k} as k),
    -- the parts of each key that the fresh rows touch, in the order of the index: what lies beside each other is looked up once
    reach as materialized (
      select ${columns.key('p')}, lower(p._part) as _since, upper(p._part) as _until,
        lag(upper(p._part)) over (partition by ${columns.key('p')} order by p._part) as _before
      from (
        select ${columns.key()}, unnest(range_agg(${rangeType}(${f}, ${t}))) as _part
        from fresh
        group by ${columns.key()}
      ) as p
    ),
    standing as (
      select s.*
      from reach r
      ${lookUp(
        `select s.tableoid, s.ctid, 'upsert' as _op, ${columns.key('s')}, s.${f}, ${end} as ${t}${columns.values('s')},
          s._version, s._known_from, s._backfill
        from ${targetTable(target)} s
        where ${overlapping(target, targetTable(target), end, 'true')}`,
        's',
      )}
      union all
      select s.*
      from reach r
      ${lookUp(
        `select s.tableoid, s.ctid, s._op, ${columns.key('s')}, s.${f}, s.${t}${columns.tombstoneValues('s')},
          s._version, s._known_from, s._backfill
        from ${tombstone} s
        where ${overlapping(target, tombstone, `s.${t}`, `s._known_to = 'infinity'`)}`,
        's',
      )}
      where ${anyTombstone(target)}
    ),
    claims as (
      select * from standing
      union all
      select null::oid, null::tid, _op, ${columns.all()}, _id, null::timestamptz, _backfill from fresh
    ),
    -- laws 1 and 3: of its period, each claim keeps what no higher version covers. What rows are chosen by comes first, here and
    -- below: of a row that is passed over, nothing behind it is taken apart
    weighed as materialized (
      select c._won <> c._stated as _cut, case when c.ctid is null and c._won <> c._stated then c._stated - c._won end as _lost,
        c.tableoid, c.ctid, c._op, ${columns.all('c')}, c._version, c._known_from, c._backfill, c._won
      from (
        select c.*, ${multirange}(${period}) as _stated,
          ${multirange}(${period}) - coalesce(range_agg(${period}) over higher, '{}'::${multirange}) as _won
        from claims c
        window higher as (
          partition by ${columns.key('c')} order by ${columns.newestFirst('c')}
          rows between unbounded preceding and 1 preceding
        )
      ) as c
    ),
    superseded as materialized (
      select coalesce(lower(w._won) = w.${f}, false) as _keeps_start, w.tableoid, w.ctid, w._op, ${columns.all('w')},
        w._version, w._known_from, w._backfill
      from weighed w
      where w.ctid is not null and w._cut
    ),
    pieces as materialized (
      select w.ctid is not null and lower(w._kept) = w.${f} as _in_place, w.tableoid, w.ctid, w._op,
        lower(w._kept) as _part_from, upper(w._kept) as _part_to, ${columns.key('w')}${columns.values('w')}, w._version, w._backfill
      from (select w.*, unnest(w._won) as _kept from weighed w where w.ctid is null or w._cut) as w
    ),
    shadowed as (
      select w.*, lower(w._part) as _part_from, upper(w._part) as _part_to
      from (select w.*, unnest(w._lost) as _part from weighed w where w._lost is not null) as w
    )`;
}

/**
 * The rows `s` of a table that overlap the part `r`. Rows of a key do not overlap each other, so the first that can is the
 * last one to begin at or before the part: one probe of the index instead of all earlier pieces of the key. One that begins before
 * the end of the key's part before this one overlaps that one too, and is found there.
 */
function overlapping(target: TimelineTarget, table: string, end: string, standing: string): string {
  const f = ident(target.period.from.name);
  return `${sameKey(target.key, 's', 'r')} and ${standing}
        and s.${f} < r._until and ${end} > r._since and (r._before is null or s.${f} >= r._before)
        and s.${f} >= coalesce(
          (select max(b.${f}) from ${table} b
           where ${sameKey(target.key, 'b', 'r')} and b.${f} <= r._since${standing === 'true' ? '' : ` and ${standing.replace('s.', 'b.')}`}),
          r._since)`;
}
