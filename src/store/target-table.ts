import type { ClientBase } from 'pg';
import type { TableInfo } from '../db/catalogue.ts';
import { ident, identList, qualified } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import type { Target } from '../change/target.ts';
import { exclusionName } from './check-constraints.ts';
import { targetTable } from './names.ts';
import { ofBackfill } from './own-tables.ts';
import { toAxis } from './period-form.ts';

/** What emend adds to the user's own table: three columns, the index that merges and joins live from, the guard if asked for. */
export function planTargetTable(
  target: Target,
  table: TableInfo,
  { adopted }: { readonly adopted: boolean },
): Statement[] {
  const statements: Statement[] = [];
  if (!isEquipped(table) && !adopted) {
    statements.push({
      purpose: `columns of emend on ${target.schema}.${target.table}`,
      sql: [
        `alter table ${targetTable(target)}`,
        `  add column _version bigint not null,`,
        `  add column _known_from timestamptz not null,`,
        `  add column _backfill text`,
      ].join('\n'),
    });
  }
  if (!isEquipped(table)) {
    statements.push({ purpose: `rows of ${target.name} by backfill`, sql: ofBackfill(targetTable(target)) });
  }
  if (!hasIdentityIndex(target, table)) {
    statements.push({
      purpose: `one row a ${target.kind === 'facts' ? 'key' : 'key and start'} of ${target.name}`,
      sql: `create unique index ${ident(`emend_${target.name}_key`)} on ${targetTable(target)} (${identList(identityColumns(target))})`,
    });
  }
  if (target.kind === 'timeline' && target.exclusion) statements.push(...planExclusion(target, table));
  return statements;
}

/** Whether the table has emend's columns already. */
export function isEquipped(table: TableInfo): boolean {
  return table.columns.some((column) => column.name === '_version');
}

export async function hasRows(client: ClientBase, target: Target): Promise<boolean> {
  const { rows } = await client.query<{ filled: string }>(
    `select case when exists (select from ${targetTable(target)}) then 'yes' else 'no' end as filled`,
  );
  return rows[0]?.filled === 'yes';
}

/** Facts are one row a key; pieces are one row a key and start, and what looks them up leads with the key. */
function identityColumns(target: Target): string[] {
  const key = target.key.map((column) => column.name);
  return target.kind === 'timeline' ? [...key, target.period.from.name] : key;
}

function hasIdentityIndex(target: Target, table: TableInfo): boolean {
  const wanted = identityColumns(target);
  return table.uniqueIndexes.some(({ columns, partial }) => {
    if (partial || columns.length !== wanted.length) return false;
    const sameColumns = wanted.every((name) => columns.includes(name));
    return sameColumns && (target.kind === 'facts' || columns.at(-1) === target.period.from.name);
  });
}

function planExclusion(target: Target & { kind: 'timeline' }, table: TableInfo): Statement[] {
  const name = exclusionName(target.name);
  if (table.constraints.some((constraint) => constraint.name === name)) return [];
  const { from, to, rangeType } = target.period;
  const keys = target.key.map((column) => `${ident(column.name)} with ${column.equals}`).join(', ');
  return [
    {
      purpose: 'equality inside a gist index',
      sql: 'create extension if not exists btree_gist with schema public',
    },
    {
      purpose: `periods of one key of ${target.name} never overlap`,
      sql: [
        `alter table ${qualified(target.schema, target.table)} add constraint ${ident(name)}`,
        `  exclude using gist (${keys}, ${rangeType}(${ident(from.name)}, ${toAxis(target.period, ident(to.name))}) with &&)`,
      ].join('\n'),
    },
  ];
}
