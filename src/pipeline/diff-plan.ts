import type { Pool } from 'pg';
import type { Target, TimelineTarget } from '../change/target.ts';
import type { BackfillChange } from './backfill-change.ts';

/** An answer of which the promote did something else than its check had planned. */
export interface PlanDifference extends BackfillChange {
  /** Whether the promote changed it though that was not planned, or did not, though it was. */
  readonly came: 'in addition' | 'not needed';
  /** `_id`s of the corrections of its key that were told, or taken back, in between. */
  readonly because: readonly string[];
}

export interface PlanComparison {
  /** Parts of valid time of which more, or less, was changed than was planned. None: the promote did what was planned. */
  readonly inAddition: number;
  readonly notNeeded: number;
  /** The first of them. */
  readonly differences: readonly PlanDifference[];
}

/**
 * What the check planned against what the promote did. The record has the rows in which they differ; where only their cut
 * differs, as after a correction that states again what stood there, no answer does.
 */
export async function comparePlan(
  store: Pool,
  backfill: string,
  targets: readonly Target[],
  limit: number,
): Promise<PlanComparison> {
  let all: PlanComparison = { inAddition: 0, notNeeded: 0, differences: [] };
  for (const target of targets) {
    const { rows } = await store.query<{ comparison: string }>(comparisonSql(target), [
      backfill,
      target.name,
      limit - all.differences.length,
    ]);
    const { inAddition, notNeeded, differences } = JSON.parse(rows[0]!.comparison) as PlanComparison;
    all = {
      inAddition: all.inAddition + inAddition,
      notNeeded: all.notNeeded + notNeeded,
      differences: [...all.differences, ...differences],
    };
  }
  return all;
}

/** $1: the backfill; $2: the target; $3: how many differences to list. */
function comparisonSql(target: Target): string {
  return `
    with ${target.kind === 'timeline' ? differentParts(target) : differentKeys},
    listed as (
      select jsonb_build_object(
        'target', $2::text, 'key', d.key, 'validFrom', d.valid_from, 'validTo', d.valid_to, 'old', d.old, 'new', d.new,
        -- numbers beyond 2^53 as texts
        'came', d.came, 'because', to_jsonb(coalesce(d.because, '{}')::text[])
      ) as difference
      from difference d
      order by d.key, d.place, d.came
      limit $3
    )
    select jsonb_build_object(
      'inAddition', (select count(*) from difference d where d.came = 'in addition'),
      'notNeeded', (select count(*) from difference d where d.came = 'not needed'),
      'differences', coalesce((select jsonb_agg(l.difference) from listed l), '[]')
    )::text as comparison`;
}

const differentKeys = `
    difference as (
      select c.key, null::text as valid_from, null::text as valid_to, c.old, c.new, c.because, 0 as place,
        case c.side when 'made' then 'in addition' else 'not needed' end as came
      from emend.backfill_change c
      where c.backfill = $1 and c.target = $2 and c.side is not null
    )`;

function differentParts({ period }: TimelineTarget): string {
  const { rangeType } = period;
  const multirange = rangeType.replace('range', 'multirange');
  const axis = period.from.baseType;
  const parts = (side: string) =>
    `coalesce(range_agg(c.during) filter (where c.side = '${side}'), '{}'::${multirange})`;
  return `
    side as (
      select c.*, ${rangeType}(c.valid_from::${axis}, c.valid_to::${axis}) as during
      from emend.backfill_change c
      where c.backfill = $1 and c.target = $2 and c.side is not null
    ),
    change as (
      select c.key, c.old, c.new, max(c.because) as because, ${parts('planned')} as planned, ${parts('made')} as made
      from side c
      group by c.key, c.old, c.new
    ),
    difference as (
      select c.key, lower(p.during)::text as valid_from, upper(p.during)::text as valid_to, c.old, c.new, c.because,
        p.during as place, p.came
      from change c
      cross join lateral (
        select unnest(c.made - c.planned) as during, 'in addition' as came
        union all
        select unnest(c.planned - c.made), 'not needed'
      ) as p
    )`;
}
