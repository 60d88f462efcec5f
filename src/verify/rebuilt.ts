import type { ClientBase } from 'pg';
import type { Target } from '../change/target.ts';
import { ident, identList } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import { ownObject } from '../store/names.ts';
import { axisType } from './workspace.ts';
import type { Examined } from './workspace.ts';

/**
 * What a rebuild keeps between its transactions, in tables that all sessions see:
 * - `emend.<target>_rebuilt`: what the log says of each key that differs, of all four tables
 * - `emend.<target>_rebuilt_key`: these keys, and those of which the log says nothing
 *
 * Unlogged: what a crash leaves of them is dropped by the next rebuild.
 */
export function rebuiltTables(target: Target): { readonly rows: string; readonly keys: string } {
  return { rows: ownObject(target, 'rebuilt'), keys: ownObject(target, 'rebuilt_key') };
}

/** @throws EmendError `permission_missing` for a role that may create no tables in schema emend */
export async function createRebuilt(client: ClientBase, target: Target): Promise<void> {
  const { rows, keys } = rebuiltTables(target);
  const key = target.key.map(({ baseType }, index) => `k${index} ${baseType}`).join(', ');
  const axis = axisType(target);
  try {
    await client.query(
      `create unlogged table ${rows} (bucket integer, ${key}, key text[], place text, id bigint, op text, f ${axis}, t ${axis}, vals text[], known_from timestamptz, known_to timestamptz)`,
    );
    await client.query(
      `create unlogged table ${keys} (${target.key.map(({ name, baseType }) => `${ident(name)} ${baseType}`).join(', ')})`,
    );
  } catch (error) {
    if (sqlState(error) !== '42501') throw error;
    throw new EmendError(
      'permission_missing',
      'a swap keeps tables in schema emend of the store, and this role may create none',
      {
        remedy:
          'Run grant create on schema emend to it, as the owner of the schema, or rebuild as the role that migrates.',
        cause: error,
      },
    );
  }
}

export async function dropRebuilt(client: ClientBase, target: Target): Promise<void> {
  const { rows, keys } = rebuiltTables(target);
  await client.query(`drop table if exists ${rows}, ${keys}`);
}

/** Notes the keys of `verify_difference`, and forgets rows of others. */
export async function noteKeys({ client, target }: Examined): Promise<void> {
  const { rows, keys } = rebuiltTables(target);
  const typed = target.key.map(({ type, baseType }, index) => `key[${index + 1}]::${type}::${baseType}`);
  await client.query(
    `insert into ${keys} select distinct ${typed.join(', ')} from pg_temp.verify_difference`,
  );
  await client.query(
    `delete from ${rows} r where not exists (select from ${keys} q where ${sameRebuiltKey(target)})`,
  );
  await client.query(`create index on ${rows} (bucket)`);
  await client.query(`analyze ${rows}, ${keys}`);
}

/** Takes the keys in `verify_asked` out of both tables. */
export async function forgetAsked({ client, target }: Examined): Promise<void> {
  const { rows, keys } = rebuiltTables(target);
  const same = target.key.map(({ name, equals }) => `k.${ident(name)} ${equals} q.${ident(name)}`);
  await client.query(`delete from ${rows} r using pg_temp.verify_asked q where ${sameRebuiltKey(target)}`);
  await client.query(`delete from ${keys} k using pg_temp.verify_asked q where ${same.join(' and ')}`);
}

/** `r` is of the rows, `q` has the key columns by their names. */
function sameRebuiltKey(target: Target): string {
  return target.key.map(({ name, equals }, index) => `r.k${index} ${equals} q.${ident(name)}`).join(' and ');
}

export function keyList(target: Target): string {
  return identList(target.key.map(({ name }) => name));
}
