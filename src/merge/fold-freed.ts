import { ident } from '../db/identifier.ts';
import type { TimelineTarget } from '../change/target.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';
import { columnLists } from './column-lists.ts';
import { rowsOf, takenBack } from './fold.ts';
import type { Recorded } from './fold.ts';
import { anyTombstone, lookUp } from './look-up.ts';

/**
 * Who is believed where standing rows are given up, as common table expressions, for corrections that state their whole period.
 * They read `freed`, the standing rows of what was taken back, and give `superseded` and `pieces` as `replaceStanding` reads them.
 *
 * Nothing else of a key changes but what touches a freed part, so the cost follows the freed rows and not those of their keys. What is
 * believed there is on record: target, history, shadow and tombstones together cover each instant of every correction (law 4).
 */
export function foldFreed(target: TimelineTarget): string {
  const columns = columnLists(target);
  const { from, to, rangeType } = target.period;
  const [f, t] = [ident(from.name), ident(to.name)];
  const multirange = rangeType.replace('range', 'multirange');
  const claimsOn = (suffix: Recorded) => `
      select g._gap, g._part, s.*
      from gaps g join (${rowsOf(target, suffix)}) s
        on ${sameKey(target.key, 's', 'g')} and s.${f} < upper(g._part) and s.${t} > lower(g._part)`;

  return `
    gaps as materialized (
      select row_number() over () as _gap, g.*
      from (
        select ${columns.key()}, unnest(range_agg(${rangeType}(${f}, ${t}))) as _part from freed group by ${columns.key()}
      ) as g
    ),
    -- each correction once a gap, with what it covers of it, from all rows that it left
    claims as materialized (
      select distinct on (c._gap, c._version) c.*,
        range_agg(${rangeType}(c.${f}, c.${t}) * c._part) over (partition by c._gap, c._version) as _stated
      from (${(['history', 'shadow', 'tombstone'] as const).map((suffix) => claimsOn(suffix)).join('\n      union all ')}
      ) as c
      where not ${takenBack(target, 'c')}
      order by c._gap, c._version
    ),
    -- law 1: each keeps what no higher version covers
    regained as materialized (
      select w.*, _won
      from (
        select c.*, c._stated - coalesce(range_agg(c._stated) over higher, '{}'::${multirange}) as _wins
        from claims c
        window higher as (
          partition by c._gap order by ${columns.newestFirst('c')}
          rows between unbounded preceding and 1 preceding
        )
      ) as w cross join lateral unnest(w._wins) as _won
    ),
    -- law 3: what stands of the same correction beside it is one piece with it
    neighbours as materialized (
      select distinct on (s.tableoid, s.ctid) s.*
      from regained r
      ${lookUp(touching(target, 'target'), 's')}
      where r._op = 'upsert'
      union all
      select distinct on (s.tableoid, s.ctid) s.*
      from regained r
      ${lookUp(touching(target, 'tombstone'), 's')}
      where r._op <> 'upsert' and ${anyTombstone(target)}
    ),
    superseded as materialized (
      select *, false as _keeps_start from freed
      union all
      select *, false from neighbours
    ),
    pieces as materialized (
      select p.*, lower(_part) as _part_from, upper(_part) as _part_to, false as _in_place, null::oid as tableoid, null::tid as ctid
      from (
        select distinct on (p._version) p.*, range_agg(p._range) over (partition by p._version) as _ranges
        from (
          select _op, ${columns.key()}${columns.values()}, _version, _backfill, _won as _range from regained
          union all
          select _op, ${columns.key()}${columns.values()}, _version, _backfill, ${rangeType}(${f}, ${t}) from neighbours
        ) as p
        order by p._version
      ) as p cross join lateral unnest(p._ranges) as _part
    )`;
}

/** The standing rows `s` of a table that end where `r` begins, or begin where it ends, and are of its correction. */
function touching(target: TimelineTarget, suffix: 'target' | 'tombstone'): string {
  const f = ident(target.period.from.name);
  const [table, standing] =
    suffix === 'target'
      ? [targetTable(target), 'true']
      : [ownObject(target, suffix), `_known_to = 'infinity'`];
  const end =
    suffix === 'target'
      ? toAxis(target.period, `s.${ident(target.period.to.name)}`)
      : `s.${ident(target.period.to.name)}`;
  const ofCorrection = `${sameKey(target.key, 's', 'r')} and s._version = r._version and ${standing}`;
  return `${rowsOf(target, suffix)}
        where ${ofCorrection} and s.${f} = upper(r._won) and upper(r._won) = upper(r._part)
        union all ${rowsOf(target, suffix)}
        where ${ofCorrection} and ${end} = lower(r._won) and lower(r._won) = lower(r._part)
          and s.${f} = (
            select max(b.${f}) from ${table} b where ${sameKey(target.key, 'b', 'r')} and b.${f} < lower(r._won) and ${standing}
          )`;
}
