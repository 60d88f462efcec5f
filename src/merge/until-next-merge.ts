import { ident } from '../db/identifier.ts';
import type { TimelineTarget } from '../change/target.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { openEnd, toAxis } from '../store/period-form.ts';
import { columnLists } from './column-lists.ts';
import type { FoldForm } from './fold-form.ts';
import { anyTombstone, lookUp } from './look-up.ts';
import { freshRows } from './record-merged.ts';

/**
 * The fold of corrections that state only a start into what stands, as common table expressions.
 *
 * Versions compete within one start only; the winner of a start holds until the next start that has a winner. A retraction is
 * a start with nothing; a withdrawal says that there is no start here, and what held before runs on. It stands as a tombstone
 * of no length, so that lower versions of its start stay out.
 */
export function untilNextFold(target: TimelineTarget, form: FoldForm): string {
  const columns = columnLists(target);
  const [f, t] = [ident(target.period.from.name), ident(target.period.to.name)];
  const tombstone = ownObject(target, 'tombstone');
  const starts = (table: string, condition: string) =>
    `select b.${f} from ${table} b where ${sameKey(target.key, 'b', 'g')} and ${condition}`;
  const anyStart = (condition: string) =>
    `(${starts(targetTable(target), condition)})
              union all
              (${starts(tombstone, `b._known_to = 'infinity' and b._op <> 'withdraw' and ${condition}`)})`;

  return `
    ${freshRows(target, form)},
    told as materialized (select ${form.k} as k),
    touched as (
      select ${columns.key()}, min(${f}) as _first_start, max(${f}) as _last_start from fresh group by ${columns.key()}
    ),
    -- from the start before the first fresh one to the start after the last: all whose end may change, and the next start
    reach as materialized (
      select g.*,
        coalesce((select max(before.${f}) from (${anyStart(`b.${f} < g._first_start`)}) as before), g._first_start) as _since,
        coalesce((select min(after.${f}) from (${anyStart(`b.${f} > g._last_start`)}) as after), g._last_start) as _until
      from touched g
    ),
    standing as materialized (
      select s.*
      from reach r
      ${lookUp(
        `select s.tableoid, s.ctid, 'upsert' as _op, ${columns.key('s')}, s.${f}, ${toAxis(target.period, `s.${t}`)} as ${t}${columns.values('s')},
          s._version, s._known_from, s._backfill
        from ${targetTable(target)} s
        where ${sameKey(target.key, 's', 'r')} and s.${f} between r._since and r._until`,
        's',
      )}
      union all
      select s.*
      from reach r
      ${lookUp(
        `select s.tableoid, s.ctid, s._op, ${columns.key('s')}, s.${f}, s.${t}${columns.tombstoneValues('s')},
          s._version, s._known_from, s._backfill
        from ${tombstone} s
        where ${sameKey(target.key, 's', 'r')} and s.${f} between r._since and r._until and s._known_to = 'infinity'`,
        's',
      )}
      where ${anyTombstone(target)}
    ),
    claims as (
      select * from standing
      union all
      select null::oid, null::tid, _op, ${columns.key()}, ${f}, null::${target.period.to.type}${columns.values()}, _id,
        null::timestamptz, _backfill
      from fresh
    ),
    -- law 1, within one start
    ranked as (
      select c.*,
        row_number() over (partition by ${columns.key('c')}, c.${f} order by ${columns.newestFirst('c')}) = 1 as _won
      from claims c
    ),
    -- each winner holds until the next start; a withdrawal is none
    weighed as materialized (
      select r.*,
        case
          when not r._won or r._op = 'withdraw' then r.${f}
          else coalesce(
            lead(r.${f}) over (partition by ${columns.key('r')}, r._won and r._op <> 'withdraw' order by r.${f}),
            -- the start after the last fresh one keeps its end; where there is none, the last start has no end
            case
              when r.${f} > max(r.${f}) filter (where r.ctid is null) over (partition by ${columns.key('r')}) then r.${t}
              else ${openEnd(target.period)}
            end)
        end as _holds_until
      from ranked r
    ),
    superseded as materialized (
      select w.*, w._won as _keeps_start from weighed w where w.ctid is not null and (not w._won or w._holds_until <> w.${t})
    ),
    pieces as materialized (
      select w.*, w.${f} as _part_from, w._holds_until as _part_to, w.ctid is not null as _in_place
      from weighed w
      where w._won and (w.ctid is null or w._holds_until <> w.${t})
    ),
    shadowed as (
      select w.*, w.${f} as _part_from, w.${f} as _part_to from weighed w where w.ctid is null and not w._won
    )`;
}
