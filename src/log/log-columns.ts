import type { ClientBase } from 'pg';
import { qualified } from '../db/identifier.ts';
import { statedColumns } from '../change/target.ts';
import type { Column, Target } from '../change/target.ts';

/** A column of the log that the writer states. */
export interface LogColumn {
  readonly name: string;
  readonly type: string;
  /** In every row, whatever its `_op`. */
  readonly required: boolean;
  /** In an upsert. */
  readonly neededInUpsert: boolean;
  readonly defaultSql: string | null;
  /**
   * The domain that a value must fit where the log holds its base type: a domain may refuse null, and a retraction has
   * no values.
   */
  readonly domain: string | null;
}

/** The log table of a target, quoted. */
export function logTable(target: Pick<Target, 'name'>): string {
  return qualified('corrections', target.name);
}

/** Key, version and the start of a period are in every row; the other columns are values, and a retraction has none. */
export async function readLogColumns(store: ClientBase, target: Target): Promise<LogColumn[]> {
  const stated = statedColumns(target);
  const domains = await readDomains(store, target);
  return stated.map((column) => {
    const domain = isValue(target, column) ? domains.get(column.name) : undefined;
    return {
      name: column.name,
      type: domain?.type ?? column.type,
      required: isRequired(target, column),
      neededInUpsert: isValue(target, column) && !column.nullable,
      defaultSql: defaultOf(target, column, domain?.defaultSql ?? null),
      domain: domain ? column.type : null,
    };
  });
}

/** Columns that only an upsert fills. */
export function isValue(target: Target, column: Pick<Column, 'name'>): boolean {
  return column.name !== target.version?.name && target.values.some(({ name }) => name === column.name);
}

/** The end may be left out: then it is open. */
function isRequired(target: Target, column: Column): boolean {
  if (isValue(target, column)) return false;
  return target.kind === 'facts' || column.name !== target.period.to.name;
}

/** The target's default, so that both sides agree; but no clock ever states a valid time (law 10). */
function defaultOf(target: Target, column: Column, domainDefault: string | null): string | null {
  const isTime =
    target.kind === 'facts'
      ? column.name === target.eventTime?.name
      : column.name === target.period.from.name || column.name === target.period.to.name;
  return isTime ? null : (column.defaultSql ?? domainDefault);
}

interface DomainInfo {
  readonly name: string;
  readonly type: string;
  readonly defaultSql: string | null;
}

/** Base type and default of the columns that have a domain as their type. */
async function readDomains(store: ClientBase, target: Target): Promise<Map<string, DomainInfo>> {
  const { rows } = await store.query<{ info: string }>(
    `with recursive base (name, oid, typmod, default_sql) as (
       select a.attname, a.atttypid, a.atttypmod, null::text collate "C"
       from pg_attribute a
       where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
       union all
       select b.name, t.typbasetype, t.typtypmod, coalesce(b.default_sql, t.typdefault)
       from base b
       join pg_type t on t.oid = b.oid and t.typtype = 'd'
     )
     select jsonb_build_object('name', b.name, 'type', format_type(b.oid, b.typmod), 'defaultSql', b.default_sql)::text as info
     from base b
     join pg_attribute a on a.attrelid = to_regclass($1) and a.attname = b.name
     join pg_type t on t.oid = b.oid
     where b.oid <> a.atttypid and t.typtype <> 'd'`,
    [qualified(target.schema, target.table)],
  );
  const infos = rows.map((row) => JSON.parse(row.info) as DomainInfo);
  return new Map(infos.map((info) => [info.name, info]));
}
