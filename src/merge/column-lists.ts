import { ident, identList } from '../db/identifier.ts';
import { userColumns } from '../change/target.ts';
import type { Column, Target } from '../change/target.ts';

/** The lists of columns that merge statements are made of; each takes the alias to put before the names. */
export interface ColumnLists {
  key(alias?: string): string;
  /** Key, period, values. */
  all(alias?: string): string;
  /** Each with a comma before it, since there may be none. */
  values(alias?: string): string;
  /** The values as a tombstone has them: null, but for the version that orders it. */
  tombstoneValues(alias: string): string;
  /** The user's version column with a comma before it, or nothing. */
  version(alias?: string): string;
  /** `order by` of claims, the winner first (law 1): (version column, `_id`), or `_id` alone. */
  newestFirst(alias: string): string;
}

export function columnLists(target: Target): ColumnLists {
  const list = (columns: readonly Column[], alias?: string) =>
    identList(
      columns.map(({ name }) => name),
      alias,
    );
  const each = (columns: readonly Column[], sql: (column: Column) => string) =>
    columns.map((column) => `, ${sql(column)}`).join('');
  const named = (alias?: string) => (column: Column) => `${alias ? `${alias}.` : ''}${ident(column.name)}`;
  const version = target.version ? [target.version] : [];
  return {
    key: (alias) => list(target.key, alias),
    all: (alias) => list(userColumns(target), alias),
    values: (alias) => each(target.values, named(alias)),
    tombstoneValues: (alias) =>
      each(target.values, (column) =>
        column === target.version ? named(alias)(column) : `null::${column.baseType}`,
      ),
    version: (alias) => each(version, named(alias)),
    newestFirst: (alias) =>
      [
        ...version.map((column) => `${named(alias)(column)} desc nulls last`),
        `${alias}._version desc nulls last`,
      ].join(', '),
  };
}
