import { ident } from '../db/identifier.ts';
import type { TimelineTarget } from '../change/target.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { fromAxis } from '../store/period-form.ts';
import { columnLists } from './column-lists.ts';
import { recordMerged } from './record-merged.ts';

/**
 * The writing half of a timeline merge, whatever decided it. It reads three relations of claims with their columns:
 * - `superseded`: standing rows that do not stay as they are;
 * - `pieces`: what has to stand from K on, with its period as `part_from, part_to`;
 * - `shadowed`: what fresh claims did not win, with its period likewise.
 */
export function applyTimeline(target: TimelineTarget): string {
  const columns = columnLists(target);
  const [f, t] = [ident(target.period.from.name), ident(target.period.to.name)];
  return `
    taken_out as (
      delete from ${targetTable(target)} p
      where p.ctid = any (array(select ctid from superseded where _op = 'upsert'))
        and (p.tableoid, p.ctid) in (select tableoid, ctid from superseded where _op = 'upsert')
      returning 1
    ),
    tombstones_closed as (
      update ${ownObject(target, 'tombstone')} p set _known_to = (select k from told)
      where p.ctid = any (array(select ctid from superseded where _op <> 'upsert'))
        and (p.tableoid, p.ctid) in (select tableoid, ctid from superseded where _op <> 'upsert')
      returning 1
    ),
    -- law 4: a row whose period or values change goes whole to history, and what remains of it is told anew
    history as (
      insert into ${ownObject(target, 'history')} (${columns.all()}, _version, _known_from, _known_to, _backfill)
      select ${columns.all('s')}, s._version, s._known_from, told.k, s._backfill
      from superseded s cross join told
      where s._op = 'upsert'
    ),
    -- what goes, goes first, or the unique index would see both: a count of the rows is the only order that SQL keeps
    cleared as materialized (
      select (select count(*) from taken_out) + (select count(*) from tombstones_closed) as rows
    ),
    written as (
      insert into ${targetTable(target)} (${columns.key()}, ${f}, ${t}${columns.values()}, _version, _known_from, _backfill)
      select ${columns.key('p')}, p.part_from, ${fromAxis(target.period, 'p.part_to')}${columns.values('p')}, p._version, told.k, p._backfill
      from pieces p cross join told cross join cleared
      where p._op = 'upsert'
    ),
    tombstones as (
      insert into ${ownObject(target, 'tombstone')} (${columns.key()}, ${f}, ${t}${columns.version()}, _op, _version, _known_from, _backfill)
      select ${columns.key('p')}, p.part_from, p.part_to${columns.version('p')}, p._op, p._version, told.k, p._backfill
      from pieces p cross join told cross join cleared
      where p._op <> 'upsert'
    ),
    -- law 4: what a correction did not win when it was told is kept too
    shadows as (
      insert into ${ownObject(target, 'shadow')} (${columns.key()}, ${f}, ${t}${columns.values()}, _op, _version, _known_from, _backfill)
      select ${columns.key('s')}, s.part_from, s.part_to${columns.values('s')}, s._op, s._version, told.k, s._backfill
      from shadowed s cross join told
    ),
    ${recordMerged(target)}
    select count(*) as rows from merged`;
}
