import type { ClientBase } from 'pg';
import { qualified } from '../db/identifier.ts';
import type { Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import type { LogColumn } from './log-columns.ts';

/** Defaults are copied as they are, so the functions that they call have to exist in the source as well. */
export async function refuseForeignDefaults(
  source: ClientBase,
  store: ClientBase,
  target: Target,
  columns: readonly LogColumn[],
): Promise<void> {
  const called = await readCalledFunctions(
    store,
    target,
    columns.filter((column) => column.defaultSql !== null).map((column) => column.name),
  );
  const missing = await missingFunctions(source, called);
  if (missing.length === 0) return;
  throw new EmendError(
    'target_invalid',
    `targets.${target.name}: defaults of its columns call functions that the source does not have`,
    {
      remedy: 'Create the functions in the source too, or drop the defaults in the store.',
      problems: missing.map((name) => ({
        path: `targets.${target.name}`,
        problem: `a default calls ${name}, which the source does not have`,
        remedy: 'Create it in the source, or drop the default.',
      })),
    },
  );
}

/** Functions of Postgres itself are not recorded as dependencies. */
async function readCalledFunctions(
  store: ClientBase,
  target: Target,
  columns: readonly string[],
): Promise<string[]> {
  const { rows } = await store.query<{ name: string }>(
    `select distinct d.refobjid::regprocedure::text as name
     from pg_attribute a
     join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
     join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid and d.refclassid = 'pg_proc'::regclass
     where a.attrelid = to_regclass($1) and a.attname = any ($2::text[])`,
    [qualified(target.schema, target.table), columns],
  );
  return rows.map(({ name }) => name);
}

async function missingFunctions(source: ClientBase, names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return [];
  const { rows } = await source.query<{ name: string }>(
    `select f.name from unnest($1::text[]) as f (name) where to_regprocedure(f.name) is null`,
    [names],
  );
  return rows.map(({ name }) => name);
}
