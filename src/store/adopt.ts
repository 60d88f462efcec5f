import type { ClientBase } from 'pg';
import { ident, identList, literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import { userColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { auditRows } from './audit.ts';
import { ownObject, targetTable } from './names.ts';
import { toAxis } from './period-form.ts';

/**
 * Takes the rows of an existing table in as corrections of their own, each older than all that come from the log: distinct
 * versions below zero, in the order of key and start. They are copied to `_baseline`, since no log has them: every fold is
 * log plus baseline. All in the transaction of the migration, in place.
 *
 * What was believed before is not known: `_as_of` refuses times before the adoption, rather than answer that nothing was.
 *
 * @throws EmendError `target_invalid` with the audit, before anything is changed
 */
export async function planAdoption(client: ClientBase, target: Target, adopt: boolean): Promise<Statement[]> {
  const problems = await auditRows(client, target);
  if (problems.length > 0) {
    throw new EmendError(
      'target_invalid',
      `the rows of ${target.schema}.${target.table} cannot be adopted as they are`,
      {
        remedy: 'Mend the rows as said for each, then migrate again; nothing has been changed.',
        problems,
      },
    );
  }
  if (!adopt) {
    throw new EmendError(
      'target_invalid',
      `targets.${target.name}: ${target.schema}.${target.table} has rows already`,
      {
        remedy: `Run emend migrate --adopt ${target.name}: each row becomes a correction, older than all that come. (Their audit found nothing wrong.)`,
      },
    );
  }
  return adoptionStatements(target);
}

function adoptionStatements(target: Target): Statement[] {
  const table = targetTable(target);
  const key = identList(target.key.map((column) => column.name));
  const start = target.kind === 'timeline' ? `, ${ident(target.period.from.name)}` : '';
  const columns = userColumns(target);
  const inAxisForm = columns.map((column) =>
    target.kind === 'timeline' && column === target.period.to
      ? toAxis(target.period, ident(column.name))
      : ident(column.name),
  );
  return [
    {
      purpose: `columns of emend on ${target.schema}.${target.table}`,
      sql: `alter table ${table}\n  add column _version bigint,\n  add column _known_from timestamptz,\n  add column _backfill text`,
    },
    {
      purpose: `each row of ${target.name} is a correction older than all that come`,
      sql: [
        `update ${table} t`,
        `set _version = numbered.place - numbered.total - 1, _known_from = numbered.k`,
        `from (`,
        `  select tableoid, ctid, row_number() over (order by ${key}${start}) as place, count(*) over () as total,`,
        `    (select greatest(clock_timestamp(), horizon + interval '1 microsecond') from emend.clock) as k`,
        `  from ${table}`,
        `) as numbered`,
        `where t.tableoid = numbered.tableoid and t.ctid = numbered.ctid`,
      ].join('\n'),
    },
    {
      purpose: `rows of ${target.name} that no log has`,
      sql: [
        `create table ${ownObject(target, 'baseline')} (`,
        `  ${[...columns.map((column) => `${ident(column.name)} ${column.type}`), '_version bigint primary key'].join(',\n  ')}`,
        `)`,
      ].join('\n'),
    },
    {
      purpose: `baseline of ${target.name}`,
      sql: [
        `insert into ${ownObject(target, 'baseline')} (${identList(columns.map((column) => column.name))}, _version)`,
        `select ${inAxisForm.join(', ')}, _version from ${table}`,
      ].join('\n'),
    },
    {
      purpose: `no row of ${target.name} without its place in the order`,
      sql: `alter table ${table} alter column _version set not null, alter column _known_from set not null`,
    },
  ];
}

/** The time before which nothing is known of an adopted target. Run after its contract was recorded. */
export function recordAdoption(target: Target): Statement {
  return {
    purpose: `since when ${target.name} is known`,
    sql: `update emend.target set known_since = (select min(_known_from) from ${targetTable(target)}) where name = ${literal(target.name)}`,
  };
}
