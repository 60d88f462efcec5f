import type { ClientBase } from 'pg';
import { ident } from '../db/identifier.ts';
import type { Column, FactsTarget, Target, TimelineTarget } from '../change/target.ts';
import { foldSql } from '../merge/merge-sql.ts';
import { stagedRows } from '../merge/arrived.ts';
import { sameKey, sameValue } from '../store/equality.ts';
import type { BackfillTarget } from './promotion.ts';

/**
 * Writes the diff of a backfill to `emend.backfill_change`: of every key, over every part of valid time, the answer now and
 * the answer after promoting, where they differ. It reads what a merge reads and decides as a merge decides, and changes
 * nothing else. An earlier diff of the same backfill is replaced.
 */
export async function writeDiff(
  client: ClientBase,
  backfill: string,
  { target, revision }: BackfillTarget,
): Promise<void> {
  await client.query(`delete from emend.backfill_change where backfill = $1 and target = $2`, [
    backfill,
    target.name,
  ]);
  await client.query(diffSql(target, revision), [backfill, target.name]);
}

/** Parameters: the backfill, the target's name. */
function diffSql(target: Target, revision: number): string {
  // K decides nothing about what changes
  const form = { arrived: stagedRows(target, '$1'), k: `'infinity'::timestamptz`, revision };
  return `
    with
    ${foldSql(target, form)},
    ${target.kind === 'timeline' ? changedParts(target) : changedKeys(target)}
    insert into emend.backfill_change (backfill, target, key, valid_from, valid_to, old, new)
    select $1, $2, c.key, c.valid_from, c.valid_to, c.old, c.new
    from changed c`;
}

/** Texts, and no JSON numbers (law 9). */
function json(columns: readonly Column[], alias: string): string {
  if (columns.length === 0) return `'{}'::jsonb`;
  const texts = columns.map(({ name }) => `${alias}.${ident(name)}::text as ${ident(name)}`);
  // named as no column of a user can be: `v` would be taken for one
  return `(select to_jsonb(_texts) from (select ${texts.join(', ')}) as _texts)`;
}

function differs(target: Target): string {
  if (target.values.length === 0) return 'false';
  const same = target.values.map((column) =>
    sameValue(column, `o.${ident(column.name)}`, `n.${ident(column.name)}`),
  );
  return `not (${same.join(' and ')})`;
}

function changedParts(target: TimelineTarget): string {
  const { from, to, rangeType } = target.period;
  const multirange = rangeType.replace('range', 'multirange');
  const { key, values } = target;
  const names = (alias: string) => key.map(({ name }) => `${alias}.${ident(name)}`).join(', ');
  return `
    old_parts as materialized (
      select s.*, ${rangeType}(s.${ident(from.name)}, s.${ident(to.name)}) as _during from superseded s where s._op = 'upsert'
    ),
    new_parts as materialized (
      select p.*, ${rangeType}(p._part_from, p._part_to) as _during from pieces p where p._op = 'upsert'
    ),
    other_answer as (
      select ${json(key, 'n')} as key, o._during * n._during as _during, ${json(values, 'o')} as old, ${json(values, 'n')} as new
      from old_parts o join new_parts n on ${sameKey(key, 'o', 'n')} and o._during && n._during
      where ${differs(target)}
    ),
    first_answer as (
      select ${json(key, 'n')} as key, _part as _during, null::jsonb as old, ${json(values, 'n')} as new
      from new_parts n
      left join (select ${names('o')}, range_agg(o._during) as whole from old_parts o group by ${names('o')}) as before
        on ${sameKey(key, 'before', 'n')}
      cross join lateral unnest(${multirange}(n._during) - coalesce(before.whole, '{}'::${multirange})) as _part
    ),
    no_answer as (
      select ${json(key, 'o')} as key, _part as _during, ${json(values, 'o')} as old, null::jsonb as new
      from old_parts o
      left join (select ${names('n')}, range_agg(n._during) as whole from new_parts n group by ${names('n')}) as after
        on ${sameKey(key, 'after', 'o')}
      cross join lateral unnest(${multirange}(o._during) - coalesce(after.whole, '{}'::${multirange})) as _part
    ),
    changed as (
      select key, lower(_during)::text as valid_from, upper(_during)::text as valid_to, old, new
      from (select * from other_answer union all select * from first_answer union all select * from no_answer) as part
    )`;
}

function changedKeys(target: FactsTarget): string {
  const { key, values } = target;
  const first = ident(key[0]!.name);
  return `
    changed as (
      select ${json(key, 'n')} as key, null::text as valid_from, null::text as valid_to,
        case when o.${first} is not null then ${json(values, 'o')} end as old, ${json(values, 'n')} as new
      from pieces n
      left join superseded o on ${sameKey(key, 'o', 'n')} and o._op = 'upsert'
      where n._op = 'upsert' and (o.${first} is null or ${differs(target)})
      union all
      select ${json(key, 'o')}, null, null, ${json(values, 'o')}, null
      from superseded o
      where o._op = 'upsert' and not exists (select from pieces n where ${sameKey(key, 'o', 'n')} and n._op = 'upsert')
    )`;
}
