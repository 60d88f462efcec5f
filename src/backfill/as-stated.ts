import type { ClientBase } from 'pg';
import type { Target } from '../change/target.ts';
import { ident, literal } from '../db/identifier.ts';
import { sameKey, sameValue } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';

/**
 * Whether the table holds what the staged rows state, after they were merged and before they leave staging: a trigger may change what
 * it lets pass. Asked only of tables that have one.
 *
 * @throws SQLSTATE EM005, as `emend.require_written` does in every merge for rows that a trigger keeps out
 */
export async function requireAsStated(client: ClientBase, target: Target, backfill: string): Promise<void> {
  const table = targetTable(target);
  const stated = [
    sameKey(target.key, 'p', 's'),
    ...target.values.map((column) => sameValue(column, `p.${ident(column.name)}`, `s.${ident(column.name)}`)),
    ...(target.kind === 'timeline' ? [ofPeriod(target)] : []),
  ];
  await client.query(
    `select emend.require_written(${literal(table)}, count(*), count(*) filter (where ${stated.join(' and ')}))
     from ${table} p
     join ${ownObject(target, 'staged')} s on s._id = p._version
     where p._backfill = $1 and s._backfill = $1
       and exists (
         select from pg_trigger t
         where not t.tgisinternal and t.tgenabled <> 'D'
           and (t.tgrelid = ${literal(table)}::regclass
             or t.tgrelid in (select tree.relid from pg_partition_tree(${literal(table)}) tree))
       )`,
    [backfill],
  );
}

/** A piece is a part of what its row states, or begins where it does. */
function ofPeriod(target: Extract<Target, { kind: 'timeline' }>): string {
  const [f, t] = [ident(target.period.from.name), ident(target.period.to.name)];
  if (target.mode !== 'override') return `p.${f} = s.${f}`;
  return `p.${f} >= s.${f} and ${toAxis(target.period, `p.${t}`)} <= s.${t}`;
}
