import type { ClientBase } from 'pg';
import { readTable } from '../db/catalogue.ts';
import type { ColumnInfo, TableInfo } from '../db/catalogue.ts';
import { ident, literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import type { Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { logTable } from './log-columns.ts';
import type { LogColumn } from './log-columns.ts';
import { refuseForeignDefaults } from './log-defaults.ts';

/**
 * emend's columns of every log. A writer states `_op`, `_backfill` and `_reason`; the others are the server's.
 * Only `_nonce` has a volatile default other than nextval: COPY then inserts row by row.
 */
const ownColumns: readonly { name: string; ddl: string; comment: string }[] = [
  {
    name: '_id',
    ddl: `bigint primary key default nextval('corrections._id')`,
    comment: 'Version of the correction: the higher one wins.',
  },
  {
    name: '_op',
    ddl: `text not null default 'upsert'`,
    comment:
      'upsert: these are the values. retract: there is nothing. withdraw: no start is here (each-holds-until-the-next only).',
  },
  {
    name: '_backfill',
    ddl: 'text',
    comment: 'Name of the backfill that the row belongs to; null: visible at once.',
  },
  { name: '_reason', ddl: 'text', comment: 'Why it was written.' },
  { name: '_actor', ddl: 'text not null default current_user', comment: 'The role that wrote it.' },
  {
    name: '_recorded_at',
    ddl: 'timestamptz not null default now()',
    comment: 'Start of the transaction that wrote it. Never a valid time.',
  },
  {
    name: '_xid',
    ddl: 'xid8 not null default pg_current_xact_id()',
    comment: 'The transaction that wrote it.',
  },
  {
    name: '_nonce',
    ddl: 'bigint not null default (random() * 9007199254740991)::bigint',
    comment: 'Tells a re-used _id after a failover.',
  },
];

/** Creates the log, or adds the columns that the target has gained since. */
export async function planLogTable(
  source: ClientBase,
  store: ClientBase,
  target: Target,
  columns: readonly LogColumn[],
): Promise<Statement[]> {
  const table = await readTable(source, 'corrections', target.name);
  if (!table) {
    await refuseForeignDefaults(source, store, target, columns);
    return createLog(target, columns);
  }
  refuseOtherTable(target, table);
  refuseGone(target, table, columns);
  const added = columns.filter((column) => !find(table, column));
  if (added.length > 0) await refuseForeignDefaults(source, store, target, added);
  return columns.flatMap((column) => {
    const before = find(table, column);
    return before ? changeColumn(target, before, column) : [addColumn(target, column)];
  });
}

function createLog(target: Target, columns: readonly LogColumn[]): Statement[] {
  const table = logTable(target);
  const purpose = `value log of ${target.name}`;
  const ddl = [
    ...columns.map(columnSql),
    ...ownColumns.map((column) => `${ident(column.name)} ${column.ddl}`),
  ];
  return [
    { purpose, sql: `create table ${table} (\n  ${ddl.join(',\n  ')}\n)` },
    {
      purpose: `rows of a backfill in the log of ${target.name}`,
      sql: `create index on ${table} (_backfill, _id) where _backfill is not null`,
    },
    {
      purpose: `the log of ${target.name} by transaction, for the sweep`,
      sql: `create index on ${table} (_xid, _id) where _backfill is null`,
    },
    {
      purpose: `what the log of ${target.name} is`,
      sql: `comment on table ${table} is ${literal(tableComment(target))}`,
    },
    ...[...ownColumns, ...periodComments(target)].map(({ name, comment }) => ({
      purpose: `what ${name} in the log of ${target.name} is`,
      sql: `comment on column ${table}.${ident(name)} is ${literal(comment)}`,
    })),
  ];
}

function tableComment(target: Target): string {
  const table = `${target.schema}.${target.table}`;
  return `Corrections of ${table}, one row each. Append-only: insert what is true now; emend brings it to the target.`;
}

function periodComments(target: Target): { name: string; comment: string }[] {
  if (target.kind === 'facts') return [];
  const { from, to, closed } = target.period;
  if (target.mode === 'until_next') {
    return [{ name: from.name, comment: 'Valid time: from here until the next start of the key.' }];
  }
  return [
    { name: from.name, comment: `Valid time: the first instant. An open start is -infinity.` },
    {
      name: to.name,
      comment: `Valid time: ${closed ? 'the last instant that belongs to it' : 'the first instant that no longer belongs to it'}. Null or left out: it has no end.`,
    },
  ];
}

function columnSql(column: LogColumn): string {
  return [
    `${ident(column.name)} ${column.type}`,
    ...(column.required ? ['not null'] : []),
    ...(column.defaultSql === null ? [] : [`default ${column.defaultSql}`]),
  ].join(' ');
}

/** Rows that are there already are folded again one day: they need a value that the target takes. */
function addColumn(target: Target, column: LogColumn): Statement {
  const statement = `alter table ${logTable(target)} add column ${columnSql(column)}`;
  if ((column.neededInUpsert || column.required) && column.defaultSql === null) {
    throw destructive(
      target,
      `column ${ident(column.name)} is new, takes no null and has no default; recorded corrections have no value for it`,
      `Give it a default or let it be null in ${target.schema}.${target.table}. To keep it so, run by hand: ${logStatements(target, `add column ${ident(column.name)} ${column.type}`)} and fill it in the recorded rows.`,
    );
  }
  return { purpose: `new column of ${target.name} in its log`, sql: statement };
}

function changeColumn(target: Target, before: ColumnInfo, column: LogColumn): Statement[] {
  const name = ident(column.name);
  if (before.type !== column.type) {
    throw destructive(
      target,
      `column ${name} of the log is ${before.type}, and the target needs ${column.type}; what is recorded would change`,
      `Change the target's column back, or convert the record by hand: ${logStatements(target, `alter column ${name} type ${column.type}`)}`,
    );
  }
  if (before.nullable === column.required) {
    throw destructive(
      target,
      `column ${name} ${column.required ? 'became' : 'was'} part of what identifies or orders a correction (key, start or version)`,
      `Recorded corrections would mean something else: declare a new target, or change the record by hand: ${logStatements(target, `alter column ${name} ${column.required ? 'set' : 'drop'} not null`)}`,
    );
  }
  if (sameDefault(before, column)) return [];
  const action = column.defaultSql === null ? 'drop default' : `set default ${column.defaultSql}`;
  return [
    {
      purpose: `default of ${target.name}.${column.name} in its log`,
      sql: `alter table ${logTable(target)} alter column ${name} ${action}`,
    },
  ];
}

/** The text of a default is converted where the log holds the base type of a domain: then its presence has to do. */
function sameDefault(before: ColumnInfo, column: LogColumn): boolean {
  if (before.defaultSql === column.defaultSql) return true;
  return column.domain !== null && before.defaultSql !== null && column.defaultSql !== null;
}

/** A table of that name that somebody else made. */
function refuseOtherTable(target: Target, table: TableInfo): void {
  const missing = ownColumns.filter((column) => !find(table, column));
  if (missing.length === 0) return;
  throw new EmendError(
    'target_invalid',
    `targets.${target.name}: ${logTable(target)} exists in the source and is not a log (it lacks ${missing.map(({ name }) => name).join(', ')})`,
    { remedy: 'Rename that table, or give the target another name.' },
  );
}

function refuseGone(target: Target, table: TableInfo, columns: readonly LogColumn[]): void {
  const gone = table.columns.filter(
    ({ name }) => !name.startsWith('_') && !columns.some((column) => column.name === name),
  );
  if (gone.length === 0) return;
  throw destructive(
    target,
    `the log has columns that the target does not state: ${gone.map(({ name }) => ident(name)).join(', ')}`,
    `Put them back, or forget what is recorded in them: ${logStatements(target, ...gone.map(({ name }) => `drop column ${ident(name)}`))}`,
  );
}

function logStatements(target: Target, ...actions: string[]): string {
  return `alter table ${logTable(target)} ${actions.join(', ')};`;
}

function destructive(target: Target, what: string, remedy: string): EmendError {
  return new EmendError('migration_destructive', `targets.${target.name}: ${what}`, { remedy });
}

function find(table: TableInfo, column: { name: string }): ColumnInfo | undefined {
  return table.columns.find(({ name }) => name === column.name);
}
