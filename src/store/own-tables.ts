import type { ClientBase } from 'pg';
import { readTable } from '../db/catalogue.ts';
import type { TableInfo } from '../db/catalogue.ts';
import { ident, identList } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import { periodColumns, statedColumns, userColumns } from '../change/target.ts';
import type { Column, Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { ownObject } from './names.ts';
import type { OwnSuffix } from './names.ts';

interface OwnTable {
  readonly suffix: OwnSuffix & ('history' | 'shadow' | 'tombstone' | 'staged');
  readonly comment: string;
  /** The user's columns that it holds. */
  readonly columns: readonly Column[];
  /** emend's columns, as DDL. */
  readonly own: readonly string[];
  readonly indexes: readonly string[];
}

/** History, shadow, tombstone and staged rows of a target. Created, or given the columns that the target has gained since; the baseline too. */
export async function planOwnTables(client: ClientBase, target: Target): Promise<Statement[]> {
  const statements: Statement[] = [];
  for (const table of ownTables(target)) statements.push(...(await planOwnTable(client, target, table)));
  const baseline = await readTable(client, 'emend', `${target.name}_baseline`);
  if (baseline) statements.push(...planColumns(target, 'baseline', baseline, userColumns(target)));
  return statements;
}

/** Key and start: what pieces are looked up by. */
function lookup(target: Target): string {
  const start = target.kind === 'timeline' ? [target.period.from.name] : [];
  return identList([...target.key.map((column) => column.name), ...start]);
}

function ownTables(target: Target): OwnTable[] {
  const name = target.name;
  const all = userColumns(target);
  return [
    {
      suffix: 'history',
      comment: `What was believed of ${name} and is no longer: each row as it stood, from _known_from to _known_to (law 4).`,
      columns: all,
      own: [
        '_version bigint not null',
        '_known_from timestamptz not null',
        '_known_to timestamptz not null',
        '_backfill text',
        'check (_known_from < _known_to)',
      ],
      indexes: [
        `create index on ${ownObject(target, 'history')} (${lookup(target)})`,
        ofBackfill(ownObject(target, 'history')),
      ],
    },
    {
      suffix: 'shadow',
      comment: `Instants that a correction of ${name} did not win when it was merged (law 4); _known_from is its told-at.`,
      columns: all,
      own: [
        '_version bigint not null',
        '_op text not null',
        '_known_from timestamptz not null',
        '_backfill text',
      ],
      indexes: [
        `create index on ${ownObject(target, 'shadow')} (${lookup(target)})`,
        ofBackfill(ownObject(target, 'shadow')),
      ],
    },
    {
      suffix: 'tombstone',
      comment: `Winning pieces of retractions of ${name}: nothing is there, and lower versions stay out. Standing while _known_to is infinity.`,
      columns: [...target.key, ...periodColumns(target), ...(target.version ? [target.version] : [])],
      own: [
        '_version bigint not null',
        '_op text not null',
        '_known_from timestamptz not null',
        `_known_to timestamptz not null default 'infinity'`,
        '_backfill text',
        'check (_known_from < _known_to)',
      ],
      indexes: [
        `create unique index on ${ownObject(target, 'tombstone')} (${lookup(target)}) where _known_to = 'infinity'`,
        ofBackfill(ownObject(target, 'tombstone')),
      ],
    },
    {
      suffix: 'staged',
      comment: `Rows of backfills of ${name} that are not promoted: nobody sees them in ${name}, its history or its questions.`,
      columns: statedColumns(target),
      own: [
        '_id bigint primary key',
        '_op text not null',
        '_nonce bigint not null',
        '_recorded_at timestamptz not null',
        '_backfill text not null',
        '_actor text',
        '_reason text',
        // of the row's texts as the log has them: the values here went through a cast, and may print otherwise
        '_digest bigint not null',
        `${pendingColumn(target)} text not null default 'pending' check (${pendingColumn(target)} = 'pending')`,
      ],
      // rows of one backfill come together, and are read together; an entry a row would cost a third of staging it
      indexes: [
        `create index on ${ownObject(target, 'staged')} using brin (_backfill) with (pages_per_range = 16, autosummarize = on)`,
      ],
    },
  ];
}

/** What a revert finds the rows of its backfill by; rows of live corrections are not in it. */
export function ofBackfill(table: string): string {
  return `create index on ${table} (_backfill) where _backfill is not null`;
}

/** Whoever has staged rows in tables of their own may well have a column of this name. */
function pendingColumn(target: Target): string {
  return userColumns(target).some(({ name }) => name === 'backfill_status')
    ? '_backfill_status'
    : 'backfill_status';
}

async function planOwnTable(client: ClientBase, target: Target, table: OwnTable): Promise<Statement[]> {
  const name = ownObject(target, table.suffix);
  const existing = await readTable(client, 'emend', `${target.name}_${table.suffix}`);
  if (!existing) {
    const columns = [...table.columns.map(columnSql), ...table.own];
    return [
      {
        purpose: `${table.suffix} of ${target.name}`,
        sql: `create table ${name} (\n  ${columns.join(',\n  ')}\n)`,
      },
      {
        purpose: `what ${table.suffix} of ${target.name} is`,
        sql: `comment on table ${name} is '${table.comment}'`,
      },
      ...table.indexes.map((sql) => ({
        purpose: `look-ups in ${table.suffix} of ${target.name}`,
        sql,
      })),
    ];
  }
  return planColumns(target, table.suffix, existing, table.columns);
}

/**
 * What is recorded gets the default of a new column, as the rows of the target and of the log do: a row of history that comes
 * back (undo) has to fit the target, and to be what the log says.
 */
function planColumns(
  target: Target,
  suffix: OwnSuffix,
  existing: TableInfo,
  columns: readonly Column[],
): Statement[] {
  const name = ownObject(target, suffix);
  return columns.flatMap((column) => {
    const before = existing.columns.find((candidate) => candidate.name === column.name);
    if (before?.type === column.type) return [];
    if (before) {
      const statement = `alter table ${name} alter column ${ident(column.name)} type ${column.type}`;
      throw destructive(target, column, before.type, statement);
    }
    const purpose = `new column of ${target.name} in its ${suffix}`;
    const add = `alter table ${name} add column ${columnSql(column)}`;
    if (column.defaultSql === null) return [{ purpose, sql: add }];
    return [
      { purpose, sql: `${add} default ${column.defaultSql}` },
      {
        purpose: `what comes to ${suffix} of ${target.name} brings its values along`,
        sql: `alter table ${name} alter column ${ident(column.name)} drop default`,
      },
    ];
  });
}

/** Without the target's constraints: what was true once stays recordable after the rules have changed. */
function columnSql(column: Column): string {
  return `${ident(column.name)} ${column.type}`;
}

function destructive(target: Target, column: Column, before: string, statement: string): EmendError {
  return new EmendError(
    'migration_destructive',
    `targets.${target.name}: column ${ident(column.name)} was ${before} and is ${column.type} now; what is recorded would change`,
    {
      remedy: `Change the column back, or rewrite the record yourself, in every table of the target: ${statement};`,
    },
  );
}
