import { ident, literal } from '../db/identifier.ts';
import { periodColumns } from '../change/target.ts';
import type { FactsTarget, Target, TimelineTarget } from '../change/target.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { openEnd, toAxis } from '../store/period-form.ts';
import { sameKey } from '../store/equality.ts';
import { columnLists } from './column-lists.ts';

/**
 * The fold of whole keys from everything that the store has of them, as common table expressions, for targets whose keys have one
 * row or whose pieces reach to the next start. They read `asked` (keys) and give
 * - `standing`: what is believed of these keys now, with `tableoid, ctid`;
 * - `desired`: what the visible corrections say, as pieces with `_part_from, _part_to` (timelines), of the same columns.
 *
 * It can, because target, history, shadow and tombstones together cover each instant of every correction (law 4).
 */
export function foldAsked(target: Target): string {
  const ofAsked = (suffix: Recorded) =>
    `${rowsOf(target, suffix)}
      join asked on ${sameKey(target.key, 's', 'asked')}`;
  const everything = (['target', 'history', 'shadow', 'tombstone'] as const)
    .map((suffix) => ofAsked(suffix))
    .join('\n      union all ');
  return `
    standing as materialized (${ofAsked('target')}
      union all ${ofAsked('tombstone')} and s._known_to = 'infinity'
    ),
    -- each correction once; those that were taken back are left out
    visible as materialized (
      select distinct on (p._version) p.*
      from (${everything}) as p
      where not ${takenBack(target, 'p')}
      order by p._version
    ),
    desired as materialized (${target.kind === 'facts' ? desiredFacts(target) : desiredByStart(target)})`;
}

/** Where the store has rows of corrections that were merged. */
export type Recorded = 'target' | 'history' | 'shadow' | 'tombstone';

/** `select` of the rows `s` of a table in the shape of all of them: key, period in the axis form, values. */
export function rowsOf(target: Target, suffix: Recorded): string {
  const columns = columnLists(target);
  const table = suffix === 'target' ? targetTable(target) : ownObject(target, suffix);
  const period = periodColumns(target).map(({ name }) => `s.${ident(name)}`);
  if (suffix === 'target' && target.kind === 'timeline')
    period[1] = `${toAxis(target.period, period[1]!)} as ${ident(target.period.to.name)}`;
  const op = suffix === 'target' || suffix === 'history' ? `'upsert' as _op` : 's._op';
  const values = suffix === 'tombstone' ? columns.tombstoneValues('s') : columns.values('s');
  return `
      select s.tableoid, s.ctid, ${op}, ${[columns.key('s'), ...period].join(', ')}${values}, s._version, s._known_from, s._backfill
      from ${table} s`;
}

/** Whether the correction of a row was taken back: no fold sees it. */
export function takenBack(target: Target, alias: string): string {
  return `exists (select from emend.undone u where u._id = ${alias}._version and u.target = ${literal(target.name)})`;
}

function desiredFacts(target: FactsTarget): string {
  const columns = columnLists(target);
  return `
      select distinct on (${columns.key('c')}) c.*
      from visible c
      order by ${columns.key('c')}, ${columns.newestFirst('c')}`;
}

/** Law 1 within one start; each winner holds until the next start, and a withdrawal is none. */
function desiredByStart(target: TimelineTarget): string {
  const columns = columnLists(target);
  const f = ident(target.period.from.name);
  return `
      select winners.*, winners.${f} as _part_from,
        case
          when winners._op = 'withdraw' then winners.${f}
          else coalesce(
            lead(winners.${f}) over (partition by ${columns.key('winners')}, winners._op <> 'withdraw' order by winners.${f}),
            ${openEnd(target.period)})
        end as _part_to
      from (
        select distinct on (${columns.key('c')}, c.${f}) c.*
        from visible c
        order by ${columns.key('c')}, c.${f}, ${columns.newestFirst('c')}
      ) as winners`;
}
