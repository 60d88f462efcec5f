import type { ClientBase } from 'pg';
import { readTable } from '../db/catalogue.ts';
import type { ColumnInfo, ConstraintInfo, TableInfo } from '../db/catalogue.ts';
import { ident } from '../db/identifier.ts';
import type { Column, FactsTarget, Period, Target, TimelineTarget } from '../change/target.ts';
import type { PeriodDeclaration, TargetDeclaration } from '../config/target-declaration.ts';
import { EmendError } from '../errors.ts';
import type { Problem } from '../errors.ts';
import { checkConstraints } from './check-constraints.ts';
import { checkOpenEnd, checkPeriod, rangeTypes } from './check-period.ts';
import { axisOpenEnd } from './period-form.ts';

/** Types whose text depends on the server it is read on: they cannot travel as text (law 9). */
const unportableTypes = /^(money|reg[a-z]+)(\[\])?$/;

/** Columns that emend adds to a target. */
export const ownColumns: readonly string[] = ['_version', '_known_from', '_backfill'];

/**
 * Joins each declaration with what the store's catalogue says about its table.
 *
 * @throws EmendError `target_invalid` with every problem of every target at once.
 */
export async function resolveTargets(
  client: ClientBase,
  declarations: readonly TargetDeclaration[],
): Promise<Target[]> {
  const problems: Problem[] = [];
  const targets: Target[] = [];
  for (const declaration of declarations) {
    const table = await readTable(client, declaration.schema, declaration.table);
    const found = table
      ? [...checkTable(declaration, table), ...(await checkOpenEnd(client, declaration, table))]
      : [missingTable(declaration)];
    problems.push(...found);
    if (table && found.length === 0) targets.push(buildTarget(declaration, table));
  }
  if (problems.length > 0) {
    throw new EmendError('target_invalid', 'the configuration does not fit the tables of the store', {
      remedy: 'Change the configuration or the tables as said for each; nothing has been changed.',
      problems,
    });
  }
  return targets;
}

function missingTable({ name, schema, table }: TargetDeclaration): Problem {
  const folded = `${schema}.${table}`.toLowerCase();
  const hint =
    folded === `${schema}.${table}`
      ? ''
      : ` Capitals are taken as they are written, and Postgres made a name lower case that was created without quotes: is it ${folded}?`;
  return {
    path: `targets.${name}`,
    problem: `the store has no table ${schema}.${table}`,
    remedy: `Create the table in the store first, or correct the name (a name without a schema means public).${hint}`,
  };
}

/** Everything that makes the table unusable as this target. */
function checkTable(declaration: TargetDeclaration, table: TableInfo): Problem[] {
  const path = `targets.${declaration.name}`;
  if (table.kind !== 'r' && table.kind !== 'p') {
    return [
      {
        path,
        problem: `${table.schema}.${table.name} is not a table (relkind ${table.kind})`,
        remedy: 'A target is a plain or partitioned table, not a view, foreign table or materialized view.',
      },
    ];
  }
  return [
    ...checkNames(declaration, table, path),
    ...checkKey(declaration, table, path),
    ...checkPeriod(declaration, table, path),
    ...checkTypes(table, path),
    ...checkVersion(declaration, table, path),
    // an index on the right key looks wrong beside a misspelt one
    ...(hasIdentity(declaration, table) ? checkConstraints(declaration, table) : []),
  ];
}

function hasIdentity({ key, period }: TargetDeclaration, { columns }: TableInfo): boolean {
  const identity = [...key, ...(period ? [period.from, period.to] : [])];
  return identity.every((name) => columns.some((column) => column.name === name));
}

function checkNames(declaration: TargetDeclaration, table: TableInfo, path: string): Problem[] {
  const known = new Set(table.columns.map((column) => column.name));
  const missing = declaredColumns(declaration)
    .filter(({ name }) => !known.has(name))
    .map(({ name, option }) => ({
      path: `${path}.${option}`,
      problem: `${table.schema}.${table.name} has no column ${ident(name)}`,
      remedy: `Its columns are: ${table.columns.map((column) => column.name).join(', ')}.`,
    }));
  const reserved = table.columns
    .filter(({ name }) => name.startsWith('_') && !ownColumns.includes(name))
    .map(({ name }) => ({
      path,
      problem: `column ${ident(name)} of ${table.schema}.${table.name} begins with an underscore`,
      remedy:
        "Names that begin with an underscore are emend's own in log, history and target: rename the column.",
    }));
  return [...missing, ...reserved];
}

function declaredColumns(declaration: TargetDeclaration): { name: string; option: string }[] {
  const { key, period, eventTime, version } = declaration;
  return [
    ...key.map((name) => ({ name, option: 'key' })),
    ...(period ? [{ name: period.from, option: 'period' }] : []),
    ...(period ? [{ name: period.to, option: 'period' }] : []),
    ...(eventTime ? [{ name: eventTime, option: 'eventTime' }] : []),
    ...(version ? [{ name: version, option: 'version' }] : []),
  ];
}

function checkKey(declaration: TargetDeclaration, table: TableInfo, path: string): Problem[] {
  return declaration.key.flatMap((name) => {
    const column = table.columns.find((candidate) => candidate.name === name);
    if (!column) return [];
    const problems: Problem[] = [];
    if (column.nullable) {
      problems.push({
        path: `${path}.key`,
        problem: `key column ${ident(name)} may be null`,
        remedy: `A natural key has no nulls: alter table ${ident(table.schema)}.${ident(table.name)} alter column ${ident(name)} set not null;`,
      });
    }
    if (!column.hashable || column.equalsSchema === null) {
      problems.push({
        path: `${path}.key`,
        problem: `key column ${ident(name)} has type ${column.type}, which Postgres cannot hash`,
        remedy:
          'Use a key type with a hash operator class (integers, text, uuid, date, timestamptz, numeric, …).',
      });
    }
    if (column.storeOnly) {
      problems.push({
        path: `${path}.key`,
        problem: `key column ${ident(name)} is filled in by the store itself (generated, identity or serial)`,
        remedy: 'A natural key names a thing in the world; use the columns that the application knows it by.',
      });
    }
    return problems;
  });
}

function checkTypes(table: TableInfo, path: string): Problem[] {
  return table.columns
    .filter((column) => unportableTypes.test(column.type))
    .map((column) => ({
      path,
      problem: `column ${ident(column.name)} has type ${column.type}, whose text means something else on another server`,
      remedy: 'Use numeric instead of money, and text or oid instead of a reg* type.',
    }));
}

function checkVersion(declaration: TargetDeclaration, table: TableInfo, path: string): Problem[] {
  const column = table.columns.find((candidate) => candidate.name === declaration.version);
  if (!column || !column.nullable) return [];
  return [
    {
      path: `${path}.version`,
      problem: `version column ${ident(column.name)} may be null`,
      remedy: `Without a version a row has no place in the order: alter table ${ident(table.schema)}.${ident(table.name)} alter column ${ident(column.name)} set not null;`,
    },
  ];
}

function buildTarget(declaration: TargetDeclaration, table: TableInfo): Target {
  const columnsByName = new Map(
    table.columns.filter((info) => !info.storeOnly).map((info) => [info.name, toColumn(info)]),
  );
  const column = (name: string): Column => {
    const found = columnsByName.get(name);
    if (!found) throw new TypeError(`column ${name} was checked and is gone`);
    return found;
  };
  const key = declaration.key.map(column);
  const notValues = new Set([
    ...declaration.key,
    ...(declaration.period ? [declaration.period.from, declaration.period.to] : []),
    ...ownColumns,
  ]);
  const values = [...columnsByName.values()].filter(({ name }) => !notValues.has(name));
  const base = {
    name: declaration.name,
    schema: table.schema,
    isPartitioned: table.kind === 'p',
    table: table.name,
    key,
    values,
    version: declaration.version ? column(declaration.version) : null,
    checks: mirroredChecks(declaration, table),
  };
  if (!declaration.period) {
    return {
      ...base,
      kind: 'facts',
      eventTime: declaration.eventTime ? column(declaration.eventTime) : null,
    } satisfies FactsTarget;
  }
  const from = column(declaration.period.from);
  return {
    ...base,
    kind: 'timeline',
    mode: declaration.period.mode,
    period: buildPeriod(declaration.period, from, column(declaration.period.to)),
    exclusion: declaration.exclusion,
  } satisfies TimelineTarget;
}

function buildPeriod(declared: PeriodDeclaration, from: Column, to: Column): Period {
  const rangeType = rangeTypes[from.type]!;
  const openEnd = declared.openEnd === undefined ? axisOpenEnd({ rangeType }) : declared.openEnd;
  return { from, to, rangeType, openEnd, closed: declared.closed === true };
}

function toColumn(info: ColumnInfo): Column {
  return {
    name: info.name,
    type: info.type,
    baseType: info.baseType,
    equals: info.equalsSchema === null ? null : `operator(${ident(info.equalsSchema)}.=)`,
    nullable: info.nullable,
    defaultSql: info.defaultSql,
  };
}

/** Checks that hold for a row by itself and on any server; the others stay with the store (REVIEW F22). */
function mirroredChecks(declaration: TargetDeclaration, table: TableInfo): { name: string; sql: string }[] {
  const notInLog = new Set([
    ...(declaration.period ? [declaration.period.from, declaration.period.to] : []),
    ...ownColumns,
    ...table.columns.filter((column) => column.storeOnly).map((column) => column.name),
  ]);
  return table.constraints
    .filter((constraint) => isMirrored(constraint, notInLog))
    .map((constraint) => ({
      name: constraint.name,
      sql: constraint.expression!,
    }));
}

const changesWithTime =
  /\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|random|current_\w+|localtime\w*)\b/i;

function isMirrored(constraint: ConstraintInfo, notInLog: ReadonlySet<string>): boolean {
  return (
    constraint.type === 'c' &&
    constraint.expression !== null &&
    !constraint.usesFunctions &&
    !changesWithTime.test(constraint.expression) &&
    !constraint.columns.some((name) => notInLog.has(name))
  );
}
