import { ident } from '../db/identifier.ts';
import { periodColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { fromAxis } from '../store/period-form.ts';
import { columnLists } from './column-lists.ts';
import { anyTombstone, inPlaceOf, placedIn } from './look-up.ts';
import { allWritten, countOf } from './require-written.ts';

/**
 * The writing half of a fold, whatever decided it, as common table expressions. They read `told` (K) and two relations of
 * claims with their columns and `tableoid, ctid`:
 * - `superseded`: standing rows that do not stay as they are; `_keeps_start`: one of `pieces` takes the row's place;
 * - `pieces`: what has to stand from K on; for a timeline with its period as `_part_from, _part_to`; `_in_place`: of the standing row
 *   at this place, with its start, so that only its end changes.
 */
export function replaceStanding(target: Target): string {
  const columns = columnLists(target);
  const period = periodColumns(target)
    .map(({ name }) => `, ${ident(name)}`)
    .join('');
  const inTargetForm =
    target.kind === 'timeline' ? `, p._part_from, ${fromAxis(target.period, 'p._part_to')}` : '';
  const inAxisForm = target.kind === 'timeline' ? ', p._part_from, p._part_to' : '';
  const shortened =
    target.kind === 'timeline'
      ? `
    -- a row that keeps its start is updated in its place: where its page has room, no index is touched
    shortened as (
      update ${targetTable(target)} p
      set ${ident(target.period.to.name)} = ${fromAxis(target.period, 'n._part_to')}, _known_from = (select k from told)
      from pieces n
      where n._in_place and n._op = 'upsert' and ${inPlaceOf('n')}
      returning 1
    ),`
      : `
    shortened as (select 1 where false),`;
  return `
    taken_out as (
      delete from ${targetTable(target)} p
      using superseded s
      where s._op = 'upsert' and not s._keeps_start and ${inPlaceOf('s')}
      returning 1
    ),${shortened}
    tombstones_closed as (
      update ${ownObject(target, 'tombstone')} p set _known_to = (select k from told)
      where ${anyTombstone(target)} and ${placedIn("superseded where _op <> 'upsert'")}
      returning 1
    ),
    -- law 4: a row whose period or values change goes whole to history, and what remains of it is told anew
    history as (
      insert into ${ownObject(target, 'history')} (${columns.all()}, _version, _known_from, _known_to, _backfill)
      select ${columns.all('s')}, s._version, s._known_from, (select k from told), s._backfill
      from superseded s
      where s._op = 'upsert'
    ),
    -- what goes, goes first, or the unique index would see both: a count of the rows is the only order that SQL keeps
    cleared as materialized (
      select ${countOf('tombstones_closed')} as rows
      -- before what still stands is taken for a double key
      where ${allWritten(target, countOf("superseded where _op = 'upsert'"), ['taken_out', 'shortened'])}
    ),
    decided as materialized (
      select count(*) filter (where _op = 'upsert') as rows, count(*) filter (where _op <> 'upsert') as tombstones from pieces
    ),
    written as (
      insert into ${targetTable(target)} (${columns.key()}${period}${columns.values()}, _version, _known_from, _backfill)
      select ${columns.key('p')}${inTargetForm}${columns.values('p')}, p._version, (select k from told), p._backfill
      from pieces p
      where p._op = 'upsert' and not p._in_place and (select rows from cleared) >= 0
      returning 1
    ),
    tombstones as (
      insert into ${ownObject(target, 'tombstone')} (${columns.key()}${period}${columns.version()}, _op, _version, _known_from, _backfill)
      select ${columns.key('p')}${inAxisForm}${columns.version('p')}, p._op, p._version, (select k from told), p._backfill
      from pieces p
      where p._op <> 'upsert' and (select tombstones from decided) > 0 and (select rows from cleared) >= 0
    )`;
}

/** A condition: what `replaceStanding` decided is what it did. What went is counted in `cleared`, which nobody reads where nothing is written. */
export function allReplaced(target: Target): string {
  return `exists (select from cleared) and ${allWritten(target, '(select rows from decided)', ['written', 'shortened'])}`;
}
