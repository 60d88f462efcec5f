import type { ClientBase } from 'pg';
import { ident, identList, literal } from '../db/identifier.ts';
import { periodColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import type { Problem } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { targetTable } from './names.ts';
import { openEnd, toAxis } from './period-form.ts';

/** One thing that rows of an existing table may do that no target may. */
interface Finding {
  readonly what: string;
  readonly remedy: string;
  /** A query of the offending rows. */
  readonly sql: string;
}

/** How many of the offending rows are shown. */
const shownRows = 3;

/** What stands in the way of adopting the rows of a table, each with its count and first rows. Reads only. */
export async function auditRows(client: ClientBase, target: Target): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const finding of findings(target)) {
    const { count, examples } = await countRows(client, target, finding);
    if (count === 0) continue;
    problems.push({
      path: `targets.${target.name}`,
      problem: `${countOf(count, 'row')} of ${target.schema}.${target.table}: ${finding.what}; first: ${examples.join('; ')}`,
      remedy: finding.remedy,
    });
  }
  return problems;
}

function findings(target: Target): Finding[] {
  const table = targetTable(target);
  const key = identList(target.key.map((column) => column.name));
  const nullKey: Finding = {
    what: 'a key column is null',
    remedy: 'Give each row its key, or delete it.',
    sql: `select * from ${table} where ${target.key.map((column) => `${ident(column.name)} is null`).join(' or ')}`,
  };
  if (target.kind === 'facts') {
    return [
      nullKey,
      {
        what: 'another row has the same key',
        remedy: 'Keep one row a key: the natural key is what tells things apart.',
        sql: `select * from (select *, count(*) over (partition by ${key}) as same_key from ${table}) as counted where same_key > 1`,
      },
    ];
  }
  const { period } = target;
  const [f, t] = [ident(period.from.name), toAxis(period, ident(period.to.name))];
  return [
    nullKey,
    {
      what: 'the period has no beginning',
      remedy: `State it, or write '-infinity' where it is open.`,
      sql: `select * from ${table} where ${f} is null`,
    },
    {
      what: 'the end of the period is null',
      remedy: 'Declare openEnd: null if that means an open end; otherwise state the end.',
      sql: `select * from ${table} where ${t} is null`,
    },
    {
      what: 'the period is empty',
      remedy: period.closed
        ? 'It ends on the day before it begins: delete the row, or correct its period.'
        : 'Delete the row, or correct its period. If the end is the last day of the period, declare closed: true.',
      sql: `select * from ${table} where ${t} = ${f}`,
    },
    {
      what: 'the period ends before it begins',
      remedy: 'Correct the period, or delete the row.',
      sql: `select * from ${table} where ${t} < ${f}`,
    },
    {
      what: 'the period overlaps an earlier one of the same key',
      remedy: 'Shorten or delete one of them: one thing has one answer at an instant.',
      sql: `select * from (
        select *, max(${t}) over (partition by ${key} order by ${f}, ${t} rows between unbounded preceding and 1 preceding) as taken_until
        from ${table}
        where ${t} > ${f}
      ) as ordered where ${f} < taken_until`,
    },
    ...startFindings(target, table),
    ...(target.mode === 'until_next' ? [gapFinding(target, table)] : []),
    ...sentinelFindings(target, table),
  ];
}

/** In until-next mode only starts are recorded: an end of its own would be forgotten at the next correction. */
function gapFinding(target: Target & { kind: 'timeline' }, table: string): Finding {
  const { period } = target;
  const [f, t] = [ident(period.from.name), toAxis(period, ident(period.to.name))];
  const key = identList(target.key.map((column) => column.name));
  return {
    what: 'the period does not end where the next one of its key begins, nor is it open',
    remedy:
      "Each holds until the next in this mode: close the gap, or declare both columns with mode: 'override'.",
    sql: `select * from (
        select *, lead(${f}) over (partition by ${key} order by ${f}) as next_start from ${table}
      ) as ordered where ${t} <> coalesce(next_start, ${openEnd(period)})`,
  };
}

/** As the log asks of a start: beside the value that the table writes for an open end, wherever that lies among the values. */
function startFindings(target: Target & { kind: 'timeline' }, table: string): Finding[] {
  const { openEnd: sentinel, rangeType, from } = target.period;
  if (sentinel === null || sentinel === 'infinity') return [];
  const end = `${literal(sentinel)}::${from.type}`;
  const origin = `${literal(rangeType.startsWith('int') ? '0' : 'epoch')}::${from.type}`;
  const f = ident(from.name);
  return [
    {
      what: `the period begins at the open end ${sentinel}, or beyond it`,
      remedy:
        'An instant there could not be told from one that has no end: correct the start, or delete the row.',
      sql: `select * from ${table} where case when ${end} > ${origin} then ${f} >= ${end} else ${f} <= ${end} end`,
    },
  ];
}

/** Far ends that were not declared: every comparison with them would be right, and every "until when" wrong. */
function sentinelFindings(target: Target & { kind: 'timeline' }, table: string): Finding[] {
  const { period } = target;
  if (period.rangeType.startsWith('int')) return [];
  const end = ident(period.to.name);
  const declared =
    period.openEnd === null || period.openEnd === 'infinity' ? '' : ` and ${end} <> '${period.openEnd}'`;
  return [
    {
      what: 'the period ends so far away that it looks like an open end',
      remedy: "Declare how the table writes an open end, for example openEnd: '9999-12-31'.",
      sql: `select * from ${table} where ${end} >= '9000-01-01' and ${end} <> 'infinity'${declared}`,
    },
  ];
}

async function countRows(
  client: ClientBase,
  target: Target,
  { sql }: Finding,
): Promise<{ count: number; examples: string[] }> {
  const shown = [...target.key, ...periodColumns(target)].map((column) => column.name);
  const { rows } = await client.query<{ count: string; example: string }>(
    `select count(*) over () as count, concat_ws(', ', ${shown.map((name) => `coalesce(${ident(name)}::text, 'null')`).join(', ')}) as example
     from (${sql}) as found
     order by ${identList(shown)}
     limit ${shownRows}`,
  );
  return { count: Number(rows[0]?.count ?? 0), examples: rows.map((row) => row.example) };
}
