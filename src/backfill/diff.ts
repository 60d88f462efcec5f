import type { ClientBase } from 'pg';
import { ident, identList } from '../db/identifier.ts';
import type { Column, FactsTarget, Target, TimelineTarget } from '../change/target.ts';
import { foldSql } from '../merge/merge-sql.ts';
import { stagedNumbers, stagedRows } from '../merge/arrived.ts';
import { sameKey, sameValue } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import type { BackfillTarget } from './promotion.ts';

/**
 * Writes the diff of a backfill to `emend.backfill_change`: of every key, over every part of valid time, the answer now and
 * the answer after promoting, where they differ. It reads what a merge reads and decides as a merge decides, and changes
 * nothing else. An earlier diff of the same backfill is replaced.
 */
export async function planDiff(
  client: ClientBase,
  backfill: string,
  { target, revision }: BackfillTarget,
): Promise<void> {
  await client.query(`delete from emend.backfill_change where backfill = $1 and target = $2`, [
    backfill,
    target.name,
  ]);
  await client.query(
    `with
     ${changedSql(target, revision)}
     insert into emend.backfill_change (backfill, target, key, valid_from, valid_to, old, new)
     select $1, $2, c.key, c.valid_from, c.valid_to, c.old, c.new
     from changed c`,
    [backfill, target.name],
  );
}

/**
 * The same inside the promote, where something was told of its keys since: of the plan it is marked what is not made, and what
 * is made beside it is added, with the corrections since that it comes from. What is both planned and made is not touched.
 */
export async function recordMade(
  client: ClientBase,
  backfill: string,
  { target, revision }: BackfillTarget,
  checkedAt: string,
): Promise<void> {
  // sides that can be hashed
  const same = `p.key = m.key
    and coalesce(p.valid_from, '') = coalesce(m.valid_from, '') and coalesce(p.valid_to, '') = coalesce(m.valid_to, '')
    and coalesce(p.old, 'null') = coalesce(m.old, 'null') and coalesce(p.new, 'null') = coalesce(m.new, 'null')`;
  await client.query(
    `with
     ${changedSql(target, revision)},
     made as materialized (select c.* from changed c),
     not_made as (
       update emend.backfill_change p
       set side = 'planned'
       where p.backfill = $1 and p.target = $2 and not exists (select from made m where ${same})
     )
     insert into emend.backfill_change (backfill, target, key, valid_from, valid_to, old, new, side)
     select $1, $2, m.key, m.valid_from, m.valid_to, m.old, m.new, 'made'
     from made m
     where not exists (
       select from emend.backfill_change p where p.backfill = $1 and p.target = $2 and ${same}
     )`,
    [backfill, target.name],
  );
  await client.query(becauseSql(target), [backfill, target.name, checkedAt]);
}

/** Names the corrections that were told since $3, or taken back, of the keys where plan and promote differ. */
function becauseSql(target: Target): string {
  const of = (table: string): string =>
    `select t._version from ${table} t where ${sameKey(target.key, 't', 'k')}`;
  const tables = [
    targetTable(target),
    ...(['history', 'shadow', 'tombstone'] as const).map((suffix) => ownObject(target, suffix)),
  ];
  return `
    with staged_key as (
      select ${json(target.key, 'k')} as _key_json, k.*
      from (
        select distinct ${identList(target.key.map(({ name }) => name))} from ${ownObject(target, 'staged')} where _backfill = $1
      ) as k
    ),
    since as (
      select k._key_json as key, array_agg(t._version order by t._version) as ids
      from staged_key k
      cross join lateral (${tables.map(of).join(' union ')}) as t
      where k._key_json in (select c.key from emend.backfill_change c where c.backfill = $1 and c.target = $2 and c.side is not null)
        and (exists (select from emend.ledger_at(t._version) l where l.told_at >= $3::timestamptz)
          or exists (select from emend.undone u where u._id = t._version and u.told_at >= $3::timestamptz))
      group by k._key_json
    )
    update emend.backfill_change c
    set because = s.ids
    from since s
    where c.backfill = $1 and c.target = $2 and c.side is not null and c.key = s.key`;
}

/** CTEs that end with `changed`. $1 is the backfill. */
function changedSql(target: Target, revision: number): string {
  // K decides nothing about what changes
  const form = {
    arrived: stagedRows(target, '$1'),
    numbers: stagedNumbers(target, '$1'),
    k: `'infinity'::timestamptz`,
    revision,
  };
  return `${foldSql(target, form)},
    ${target.kind === 'timeline' ? changedParts(target) : changedKeys(target)}`;
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
