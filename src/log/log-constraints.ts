import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';
import { ident, literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import type { Target } from '../change/target.ts';
import { isValue, logTable } from './log-columns.ts';
import type { LogColumn } from './log-columns.ts';
import { periodRules } from './period-constraints.ts';

interface Constraint {
  /** Read by whoever wrote the refused row: `violates check constraint "valid_from must be before valid_to"`. */
  readonly name: string;
  readonly condition: string;
}

/**
 * The constraints that refuse a bad row where it is written (law 8), brought to what the target needs now.
 * What emend wrote is kept in the comment of each constraint, and compared with that: Postgres prints an expression in
 * its own way. On a log that exists they are `not valid`: rows of the past were told under the rules of then.
 */
export async function planConstraints(
  source: ClientBase,
  target: Target,
  columns: readonly LogColumn[],
): Promise<Statement[]> {
  const before = await readConstraints(source, target);
  const periods = target.kind === 'timeline' ? await periodRules(source, target) : [];
  const wanted = constraintsOf(target, columns, periods);
  const isKept = (one: Constraint) =>
    before.constraints.some((other) => other.name === one.name && other.condition === one.condition);
  const outdated = before.constraints.filter(
    (one) => !wanted.some((other) => other.name === one.name && other.condition === one.condition),
  );
  return [
    ...outdated.map(({ name }) => dropConstraint(target, name)),
    ...wanted.filter((one) => !isKept(one)).flatMap((one) => addConstraint(target, one, before.tableExists)),
  ];
}

function constraintsOf(
  target: Target,
  columns: readonly LogColumn[],
  periods: readonly Constraint[],
): Constraint[] {
  return [
    knownOp(target),
    ...periods.map(({ name, condition }) => ({ name: shortened(name), condition })),
    ...columns.filter((column) => column.neededInUpsert).map(valueNeeded),
    ...columns.filter((column) => column.domain !== null).map(fitsDomain),
    ...onlyUpsertHasValues(target, columns),
    ...versionIsNumber(target),
    ...target.checks.map((check) => ({ name: shortened(check.name), condition: inUpsert(`(${check.sql})`) })),
  ];
}

/** Retractions have no values, so what is asked of values is asked of upserts. */
function inUpsert(condition: string): string {
  return `_op <> 'upsert' or ${condition}`;
}

function knownOp(target: Target): Constraint {
  return target.kind === 'timeline' && target.mode === 'until_next'
    ? { name: '_op is upsert, retract or withdraw', condition: `_op in ('upsert', 'retract', 'withdraw')` }
    : { name: '_op is upsert or retract', condition: `_op in ('upsert', 'retract')` };
}

/** `is distinct from null`, since a composite value of nulls `is null` and is a value all the same. */
function valueNeeded({ name }: LogColumn): Constraint {
  return {
    name: shortened(`an upsert needs ${name}`),
    condition: inUpsert(`${ident(name)} is distinct from null`),
  };
}

/** The cast refuses, with the domain's own message; what is around it always holds. */
function fitsDomain({ name, domain }: LogColumn): Constraint {
  const column = ident(name);
  return {
    name: shortened(`${name} fits ${domain}`),
    condition: inUpsert(`${column} is not distinct from null or ${column}::${domain} is distinct from null`),
  };
}

/** A column with a default is left out: whoever leaves it out of a retraction gets the default, and no merge looks at it. */
function onlyUpsertHasValues(target: Target, columns: readonly LogColumn[]): Constraint[] {
  const values = columns.filter((column) => column.defaultSql === null && isValue(target, column));
  if (values.length === 0) return [];
  const empty = values.map(({ name }) => `${ident(name)} is not distinct from null`);
  return [{ name: 'only an upsert has values', condition: `_op = 'upsert' or (${empty.join(' and ')})` }];
}

/** NaN is above every number for Postgres: a row with it would win for ever. */
function versionIsNumber({ version }: Target): Constraint[] {
  if (!version || !/^(numeric|real|double precision)/.test(version.type)) return [];
  return [
    { name: shortened(`${version.name} must be a number`), condition: `${ident(version.name)} <> 'NaN'` },
  ];
}

/** Postgres cuts names at 63 bytes in silence; two that begin alike would be one. */
function shortened(name: string): string {
  if (Buffer.byteLength(name) <= 63) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  const start = Array.from(name);
  while (Buffer.byteLength(start.join('')) > 63 - '… '.length - 2 - hash.length) start.pop();
  return `${start.join('')}… ${hash}`;
}

function addConstraint(target: Target, { name, condition }: Constraint, tableExists: boolean): Statement[] {
  const table = logTable(target);
  return [
    {
      purpose: `rule of the log of ${target.name}`,
      sql: `alter table ${table} add constraint ${ident(name)} check (${condition})${tableExists ? ' not valid' : ''}`,
    },
    {
      purpose: `how emend knows this rule again`,
      sql: `comment on constraint ${ident(name)} on ${table} is ${literal(commentPrefix + condition)}`,
    },
  ];
}

function dropConstraint(target: Target, name: string): Statement {
  return {
    purpose: `former rule of the log of ${target.name}`,
    sql: `alter table ${logTable(target)} drop constraint ${ident(name)}`,
  };
}

const commentPrefix = 'emend: ';

/** emend's constraints of the log. Those that others added have no such comment, and stay. */
async function readConstraints(
  source: ClientBase,
  target: Target,
): Promise<{ tableExists: boolean; constraints: Constraint[] }> {
  const { rows } = await source.query<{ name: string | null; comment: string | null }>(
    `select c.conname as name, obj_description(c.oid, 'pg_constraint') as comment
     from pg_class t
     left join pg_constraint c on c.conrelid = t.oid and c.contype = 'c'
     where t.oid = to_regclass($1)
     order by c.conname`,
    [logTable(target)],
  );
  return {
    tableExists: rows.length > 0,
    constraints: rows.flatMap(({ name, comment }) =>
      name !== null && comment?.startsWith(commentPrefix)
        ? [{ name, condition: comment.slice(commentPrefix.length) }]
        : [],
    ),
  };
}
