import { is } from 'drizzle-orm';
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core';
import type { TableRef } from './define-config.ts';

export interface TableName {
  readonly schema: string;
  readonly table: string;
}

/** The table's name as the catalogue has it, or null for something that is not a name. A plain name is in `public`. */
export function tableName(ref: TableRef): TableName | null {
  if (typeof ref !== 'string') {
    const { schema, name } = getTableConfig(ref);
    return { schema: schema ?? 'public', table: name };
  }
  const parts = [...ref.matchAll(/"((?:[^"]|"")+)"|([^."\s]+)|(\.)|(.)/gsu)];
  if (parts.some((part) => part[4] !== undefined)) return null;
  const shape = parts.map((part) => (part[3] ? '.' : 'n')).join('');
  const names = parts.flatMap((part) => part[2] ?? part[1]?.replaceAll('""', '"') ?? []);
  if (shape === 'n') return { schema: 'public', table: names[0]! };
  if (shape === 'n.n') return { schema: names[0]!, table: names[1]! };
  return null;
}

export function isDrizzleTable(ref: unknown): ref is PgTable {
  return is(ref, PgTable);
}

/**
 * The database's name of a column that the user named. With a Drizzle table its property name is as good as the column's
 * own. A column that was declared without a name is called by the `casing` of the user's database object, which the
 * table does not know: then the name the user wrote stands, and the store's catalogue is asked whether it exists.
 */
export function columnName(ref: unknown, name: string): string {
  if (!isDrizzleTable(ref)) return name;
  const columns = new Map(getTableConfig(ref).columns.map((column) => [column.name, column]));
  const property = (ref as unknown as Record<string, unknown>)[name] as
    { name?: unknown; keyAsName?: unknown } | undefined;
  if (columns.has(name) || typeof property?.name !== 'string') return name;
  return property.name;
}

/** Postgres would cut a longer name in silence. */
const maxNameBytes = 63;

export function isIdentifier(name: string): boolean {
  return name !== '' && !name.includes('\0') && Buffer.byteLength(name) <= maxNameBytes;
}
