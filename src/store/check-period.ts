import type { ClientBase } from 'pg';
import type { TableInfo } from '../db/catalogue.ts';
import { ident } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import type { RangeType } from '../change/target.ts';
import type { TargetDeclaration } from '../config/target-declaration.ts';
import type { Problem } from '../errors.ts';

/** The types of valid time. */
export const rangeTypes: Readonly<Record<string, RangeType>> = {
  'timestamp with time zone': 'tstzrange',
  'timestamp without time zone': 'tsrange',
  date: 'daterange',
  integer: 'int4range',
  bigint: 'int8range',
};

/** Whether the period's columns can hold valid time; one that is missing is told elsewhere. */
export function checkPeriod(declaration: TargetDeclaration, table: TableInfo, path: string): Problem[] {
  if (!declaration.period) return [];
  const from = table.columns.find((column) => column.name === declaration.period?.from);
  const to = table.columns.find((column) => column.name === declaration.period?.to);
  if (!from || !to) return [];
  if (!rangeTypes[from.type]) {
    return [
      {
        path: `${path}.period`,
        problem: `period column ${ident(from.name)} has type ${from.type}`,
        remedy:
          'Valid time is timestamptz, timestamp, date, integer or bigint, without a precision of its own.',
      },
    ];
  }
  const problems: Problem[] = [];
  if (declaration.period.closed && from.type.startsWith('timestamp')) {
    problems.push({
      path: `${path}.closed`,
      problem: `period column ${ident(to.name)} has type ${to.type}, which has no next value`,
      remedy:
        'closed: true is for date and integer axes; a timestamp ends at the first instant that no longer belongs to it.',
    });
  }
  if (from.type !== to.type) {
    problems.push({
      path: `${path}.period`,
      problem: `${ident(from.name)} is ${from.type} and ${ident(to.name)} is ${to.type}`,
      remedy: 'Give both ends of the period one type.',
    });
  }
  const mayBeNull = declaration.period.openEnd === null ? [from] : [from, to];
  for (const column of mayBeNull.filter((end) => end.nullable)) {
    problems.push({
      path: `${path}.period`,
      problem: `period column ${ident(column.name)} may be null`,
      remedy: `Open ends are 'infinity' and '-infinity' (or declare openEnd: null for the end): alter table ${ident(table.schema)}.${ident(table.name)} alter column ${ident(column.name)} set not null;`,
    });
  }
  return problems;
}

/** Words that Postgres reads as another time each day: no clock reading becomes valid time (law 10). */
const movingTimes = /\b(now|today|tomorrow|yesterday)\b/i;

/** Whether the declared end can stand in its column: the store is asked, as it will be asked to write it. */
export async function checkOpenEnd(
  client: ClientBase,
  { name, period }: TargetDeclaration,
  table: TableInfo,
): Promise<Problem[]> {
  const openEnd = period?.openEnd;
  const column = table.columns.find((candidate) => candidate.name === period?.to);
  if (typeof openEnd !== 'string' || !column || !rangeTypes[column.type]) return [];
  const isValue = !movingTimes.test(openEnd) && (await canHold(client, column.type, openEnd));
  if (isValue) return [];
  return [
    {
      path: `targets.${name}.openEnd`,
      problem: `'${openEnd}' is no fixed value of column ${ident(column.name)}, which is ${column.type}`,
      remedy:
        "Write what the table has where a period is open, such as '9999-12-31', or null; leave it out for the axis' own (infinity, or the greatest integer).",
    },
  ];
}

async function canHold(client: ClientBase, type: string, text: string): Promise<boolean> {
  try {
    await client.query(`select $1::${type}`, [text]);
    return true;
  } catch (error) {
    if (sqlState(error)?.startsWith('22')) return false;
    throw error;
  }
}
