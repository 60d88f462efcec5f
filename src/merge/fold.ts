import { ident, literal } from '../db/identifier.ts';
import { periodColumns } from '../change/target.ts';
import type { FactsTarget, Target, TimelineTarget } from '../change/target.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { openEnd, toAxis } from '../store/period-form.ts';
import { sameKey } from '../store/equality.ts';
import { columnLists } from './column-lists.ts';

/**
 * The fold of a key from everything that the store has of it, as common table expressions. They read `asked` (keys) and give
 * - `standing`: what is believed of these keys now, with `tableoid, ctid`;
 * - `desired`: what the visible corrections say, as pieces with `_part_from, _part_to` (timelines), of the same columns.
 *
 * It can, because target, history, shadow and tombstones together cover each instant of every correction (law 4).
 */
export function foldAsked(target: Target): string {
  return `
    standing as materialized (${standing(target)}),
    visible as materialized (${visibleCorrections(target)}),
    desired as materialized (${target.kind === 'facts' ? desiredFacts(target) : desiredPieces(target)})`;
}

/** Rows of all tables in one shape: key, period in the axis form, values. */
function parts(target: Target, suffix: 'target' | 'history' | 'shadow' | 'tombstone'): string {
  const columns = columnLists(target);
  const table = suffix === 'target' ? targetTable(target) : ownObject(target, suffix);
  const period = periodColumns(target).map(({ name }) => `s.${ident(name)}`);
  if (suffix === 'target' && target.kind === 'timeline')
    period[1] = `${toAxis(target.period, period[1]!)} as ${ident(target.period.to.name)}`;
  const op = suffix === 'target' || suffix === 'history' ? `'upsert' as _op` : 's._op';
  const values = suffix === 'tombstone' ? columns.tombstoneValues('s') : columns.values('s');
  return `
      select s.tableoid, s.ctid, ${op}, ${[columns.key('s'), ...period].join(', ')}${values}, s._version, s._known_from, s._backfill
      from asked
      join ${table} s on ${sameKey(target.key, 's', 'asked')}`;
}

function standing(target: Target): string {
  return `${parts(target, 'target')}
      union all ${parts(target, 'tombstone')} and s._known_to = 'infinity'`;
}

/** Each correction once, with its whole period put together from its parts; those that were taken back are left out. */
function visibleCorrections(target: Target): string {
  const columns = columnLists(target);
  const everything = (['target', 'history', 'shadow', 'tombstone'] as const)
    .map((suffix) => parts(target, suffix))
    .join('\n      union all ');
  const period = target.kind === 'timeline' ? `, ${wholePeriod(target)}` : '';
  return `
      select distinct on (p._version) p._op, ${columns.key('p')}${columns.values('p')}, p._version, p._backfill${period}
      from (${everything}) as p
      where not exists (select from emend.undone u where u._id = p._version and u.target = ${literal(target.name)})
      order by p._version`;
}

function wholePeriod({ period }: TimelineTarget): string {
  const [f, t] = [ident(period.from.name), ident(period.to.name)];
  return `min(p.${f}) over (partition by p._version) as ${f}, max(p.${t}) over (partition by p._version) as ${t}`;
}

function desiredFacts(target: FactsTarget): string {
  const columns = columnLists(target);
  return `
      select distinct on (${columns.key('c')}) c.*
      from visible c
      order by ${columns.key('c')}, ${columns.newestFirst('c')}`;
}

function desiredPieces(target: TimelineTarget): string {
  return target.mode === 'override' ? desiredByPeriod(target) : desiredByStart(target);
}

/** Laws 1 and 3: of its period, each correction keeps what no higher version covers. */
function desiredByPeriod(target: TimelineTarget): string {
  const columns = columnLists(target);
  const { from, to, rangeType } = target.period;
  const multirange = rangeType.replace('range', 'multirange');
  const period = `${rangeType}(c.${ident(from.name)}, c.${ident(to.name)})`;
  return `
      select weighed.*, lower(_part) as _part_from, upper(_part) as _part_to
      from (
        select c.*,
          ${multirange}(${period}) - coalesce(range_agg(${period}) over higher, '{}'::${multirange}) as _won
        from visible c
        window higher as (
          partition by ${columns.key('c')} order by ${columns.newestFirst('c')}
          rows between unbounded preceding and 1 preceding
        )
      ) as weighed cross join lateral unnest(weighed._won) as _part`;
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
