import { ident } from '../db/identifier.ts';
import { periodColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { fromAxis } from '../store/period-form.ts';
import { columnLists } from './column-lists.ts';
import { placedIn } from './look-up.ts';
import { allWritten } from './require-written.ts';

/**
 * The writing half of a fold, whatever decided it, as common table expressions. They read `told` (K) and two relations of
 * claims with their columns:
 * - `superseded`: standing rows that do not stay as they are, with `tableoid, ctid`;
 * - `pieces`: what has to stand from K on; for a timeline with its period as `_part_from, _part_to`.
 */
export function replaceStanding(target: Target): string {
  const columns = columnLists(target);
  const period = periodColumns(target)
    .map(({ name }) => `, ${ident(name)}`)
    .join('');
  const inTargetForm =
    target.kind === 'timeline' ? `, p._part_from, ${fromAxis(target.period, 'p._part_to')}` : '';
  const inAxisForm = target.kind === 'timeline' ? ', p._part_from, p._part_to' : '';
  return `
    taken_out as (
      delete from ${targetTable(target)} p
      where ${placedIn("superseded where _op = 'upsert'")}
      returning 1
    ),
    tombstones_closed as (
      update ${ownObject(target, 'tombstone')} p set _known_to = (select k from told)
      where ${placedIn("superseded where _op <> 'upsert'")}
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
      -- before what still stands is taken for a double key
      where ${allWritten(target, ["superseded where _op = 'upsert'"], ['taken_out'])}
    ),
    written as (
      insert into ${targetTable(target)} (${columns.key()}${period}${columns.values()}, _version, _known_from, _backfill)
      select ${columns.key('p')}${inTargetForm}${columns.values('p')}, p._version, told.k, p._backfill
      from pieces p cross join told cross join cleared
      where p._op = 'upsert'
      returning 1
    ),
    tombstones as (
      insert into ${ownObject(target, 'tombstone')} (${columns.key()}${period}${columns.version()}, _op, _version, _known_from, _backfill)
      select ${columns.key('p')}${inAxisForm}${columns.version('p')}, p._op, p._version, told.k, p._backfill
      from pieces p cross join told cross join cleared
      where p._op <> 'upsert'
    )`;
}

/** A condition: what `replaceStanding` decided is what it did. What went is counted in `cleared`, which nobody reads where nothing is written. */
export function allReplaced(target: Target): string {
  return `exists (select from cleared) and ${allWritten(target, ["pieces where _op = 'upsert'"], ['written'])}`;
}
