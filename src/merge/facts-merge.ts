import { ident } from '../db/identifier.ts';
import { userColumns } from '../change/target.ts';
import type { FactsTarget } from '../change/target.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { columnLists } from './column-lists.ts';
import type { FoldForm } from './fold-form.ts';
import { anyTombstone, inPlaceOf, lookUp, placedIn } from './look-up.ts';
import { freshRows, recordMerged } from './record-merged.ts';
import { allWritten, countOf } from './require-written.ts';

/**
 * The fold of corrections of facts into what stands, as common table expressions.
 *
 * Of all claims on a key, the one that stands and those that arrived, the greatest version wins (law 1). A standing
 * retraction is a claim like any other: without it a late, lower upsert would bring a retracted key back.
 */
export function factsFold(target: FactsTarget, form: FoldForm): string {
  const columns = columnLists(target);

  return `
    ${freshRows(target, form)},
    told as materialized (select ${form.k} as k),
    reach as materialized (select distinct ${columns.key()} from fresh),
    standing as (
      select s.*
      from reach r
      ${lookUp(
        `select s.tableoid, s.ctid, 'upsert' as _op, ${columns.all('s')}, s._version, s._known_from, s._backfill
        from ${targetTable(target)} s
        where ${sameKey(target.key, 's', 'r')}`,
        's',
      )}
      union all
      select s.*
      from reach r
      ${lookUp(
        `select s.tableoid, s.ctid, s._op, ${columns.key('s')}${columns.tombstoneValues('s')}, s._version, s._known_from, s._backfill
        from ${ownObject(target, 'tombstone')} s
        where ${sameKey(target.key, 's', 'r')} and s._known_to = 'infinity'`,
        's',
      )}
      where ${anyTombstone(target)}
    ),
    claims as (
      select * from standing
      union all
      select null::oid, null::tid, _op, ${columns.all()}, _id, null::timestamptz, _backfill from fresh
    ),
    -- law 1: the greatest version has the key
    weighed as materialized (
      select row_number() over newest_first = 1 as _won, first_value(c._op) over newest_first as _winning_op,
        -- where the row of the key stands
        max(c.tableoid) filter (where c._op = 'upsert') over newest_first as _table, max(c.ctid) filter (where c._op = 'upsert') over newest_first as _place,
        c.*
      from claims c
      window newest_first as (
        partition by ${columns.key('c')} order by ${columns.newestFirst('c')}
        rows between unbounded preceding and unbounded following
      )
    ),
    pieces as materialized (select * from weighed where _won and ctid is null),
    -- law 4: what stood goes whole to history
    superseded as materialized (select * from weighed where ctid is not null and not _won)`;
}

/** What a merge of facts writes: it reads `superseded` and `pieces`, and `weighed` for what did not win. */
export function applyFacts(target: FactsTarget): string {
  const columns = columnLists(target);
  const leaving = "superseded where _op = 'upsert' and _winning_op <> 'upsert'";
  return `
    -- what there is none of is not looked for row by row
    decided as materialized (
      select count(*) filter (where _op = 'upsert') as rows, count(*) filter (where _op = 'upsert' and _place is not null) as restated,
        count(*) filter (where _op <> 'upsert') as tombstones
      from pieces
    ),
    history as (
      insert into ${ownObject(target, 'history')} (${columns.all()}, _version, _known_from, _known_to, _backfill)
      select ${columns.all('s')}, s._version, s._known_from, (select k from told), s._backfill
      from superseded s
      where s._op = 'upsert'
    ),
    tombstones_closed as (
      update ${ownObject(target, 'tombstone')} p set _known_to = (select k from told)
      where ${anyTombstone(target)} and ${placedIn("superseded where _op <> 'upsert'")}
      returning 1
    ),
    taken_out as (
      delete from ${targetTable(target)} p
      using superseded s
      where s._op = 'upsert' and s._winning_op <> 'upsert' and ${inPlaceOf('s')}
      returning 1
    ),
    -- by place, as is known of each key under its lock: what would look for a conflict again costs a third of the insert
    added as (
      insert into ${targetTable(target)} (${columns.all()}, _version, _known_from, _backfill)
      select ${columns.all('w')}, w._version, (select k from told), w._backfill
      from pieces w
      where w._op = 'upsert' and w._place is null
      returning 1
    ),
    restated as (${target.isPartitioned ? restatedByKey(target) : restatedInPlace(target)}),
    tombstones as (
      insert into ${ownObject(target, 'tombstone')} (${columns.key()}${columns.version()}, _op, _version, _known_from, _backfill)
      select ${columns.key('w')}${columns.version('w')}, w._op, w._version, (select k from told), w._backfill
      from pieces w
      -- the closed one first: the index holds one standing retraction a key
      where w._op <> 'upsert' and (select tombstones from decided) > 0 and (select count(*) from tombstones_closed) >= 0
    ),
    -- law 4: a correction that did not win when it was told is kept too
    shadows as (
      insert into ${ownObject(target, 'shadow')} (${columns.all()}, _op, _version, _known_from, _backfill)
      select ${columns.all('w')}, w._op, w._version, (select k from told), w._backfill
      from weighed w
      where w.ctid is null and not w._won
    ),
    ${recordMerged(target)}
    select count(*) as rows
    from merged
    where ${allWritten(target, `(select rows from decided) + ${countOf(leaving)}`, ['added', 'restated', 'taken_out'])}`;
}

/** The key too: of equal keys with different texts (citext, numeric) the winner's is shown, not the first one's. */
function restatedInPlace(target: FactsTarget): string {
  return `
      update ${targetTable(target)} p
      set ${userColumns(target)
        .map(({ name }) => `${ident(name)} = w.${ident(name)}`)
        .join(', ')},
        _version = w._version, _known_from = (select k from told), _backfill = w._backfill
      from pieces w
      where w._op = 'upsert' and w._place is not null and p.ctid = w._place and p.tableoid = w._table
        and (select restated from decided) > 0
      returning 1`;
}

/** The same where each partition has a row at a place: the insert finds the one that it is. */
function restatedByKey(target: FactsTarget): string {
  const columns = columnLists(target);
  return `
      insert into ${targetTable(target)} (${columns.all()}, _version, _known_from, _backfill)
      select ${columns.all('w')}, w._version, (select k from told), w._backfill
      from pieces w
      where w._op = 'upsert' and w._place is not null and (select restated from decided) > 0
      on conflict (${columns.key()}) do update set
        ${userColumns(target)
          .map(({ name }) => `${ident(name)} = excluded.${ident(name)}`)
          .join(', ')},
        _version = excluded._version, _known_from = excluded._known_from, _backfill = excluded._backfill
      returning 1`;
}
