import type { ClientBase } from 'pg';
import { arrayText } from '../db/array-text.ts';
import { ident } from '../db/identifier.ts';
import type { LogRows } from '../change/batch.ts';
import type { Column, Target } from '../change/target.ts';
import { lockClass, objectsLock } from '../store/lock-class.ts';

/** Buckets a target. Fixed for ever: 20,000 locks in one transaction overflow the lock table, 256 do not. */
export const bucketMask = 255;

/**
 * Takes the locks of all keys in `rows`, as `emend.lock_keys` has it: nobody else merges one of them meanwhile. It must be a
 * statement of its own, before anything is read: a statement that waits for a lock and reads would read with the snapshot from
 * before the wait.
 *
 * The target's objects are locked too, against a migration: what follows runs on the columns that it was prepared for.
 *
 * Hashes are computed from the typed key, not from its text: equal numerics, zones and citexts have different texts.
 */
export async function lockKeys(
  client: ClientBase,
  target: Target,
  number: number,
  rows: LogRows,
): Promise<void> {
  const keys = target.key.map(({ name }) => arrayText(rows.values[rows.columns.indexOf(name)] ?? []));
  await client.query({
    name: `emend lock ${target.name}`,
    text: lockSql(target.key),
    values: [lockClass + number, number, ...keys],
  });
}

/** The hash of the typed key of a relation's rows: equal for equal keys, whatever their texts. */
export function keyHash(key: readonly Column[], alias: string): string {
  return `hash_record_extended(row(${key.map(({ name }) => `${alias}.${ident(name)}`).join(', ')}), 0)`;
}

function lockSql(key: readonly Column[]): string {
  const casts = key.map(({ name, baseType }) => `a.${ident(name)}::${baseType} as ${ident(name)}`).join(', ');
  const texts = key.map(({ name }, index) => `unnest($${index + 3}::text[]) as ${ident(name)}`).join(', ');
  return `
    select pg_advisory_xact_lock_shared($1::int, ${objectsLock}),
      emend.lock_keys($2::int, array(
        select ${keyHash(key, 'k')}
        from (select ${casts} from (select ${texts}) as a) as k
      ))`;
}
