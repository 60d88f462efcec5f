import { periodColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ident } from '../db/identifier.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { fromAxis } from '../store/period-form.ts';
import type { Examined } from './workspace.ts';

/** Rows of target, history, tombstones and shadows. */
export interface Written {
  readonly takenOut: number;
  readonly putIn: number;
}

const places = ['target', 'history', 'tombstone', 'shadow'] as const;
type Place = (typeof places)[number];

/** Makes the store what the log says wherever `verify_difference` says that it is not. The keys must be kept from others. */
export async function writeDifferences({ client, target }: Examined): Promise<Written> {
  let [takenOut, putIn] = [0, 0];
  for (const place of places) {
    const { rows } = await client.query<{ out: string; in: string }>(replaceSql(target, place), [place]);
    takenOut += Number(rows[0]!.out);
    putIn += Number(rows[0]!.in);
  }
  return { takenOut, putIn };
}

/**
 * One statement a table: a foreign key to a row that goes and comes again is looked at when it has ended. What goes, goes
 * first, or a unique index would see both: a count of the rows is the only order that SQL keeps.
 */
function replaceSql(target: Target, place: Place): string {
  const table = place === 'target' ? targetTable(target) : ownObject(target, place);
  const columns = placeColumns(target, place, {
    key: 'd.key',
    id: 'd.id',
    op: 'd.log_op',
    from: 'd.log_from',
    to: 'd.log_to',
    vals: 'd.log_vals',
    knownFrom: 'd.log_known_from',
    knownTo: 'd.log_known_to',
  });
  return `
    with
    gone as (
      delete from ${table} t
      using pg_temp.verify_difference d
      where d.place = $1 and t.tableoid = d.in_table and t.ctid = d.at_row
      returning 1
    ),
    cleared as materialized (select count(*) as rows from gone),
    put as (
      insert into ${table} (${columns.map(([name]) => ident(name)).join(', ')})
      select ${columns.map(([, sql]) => sql).join(', ')}
      from pg_temp.verify_difference d cross join cleared
      where d.place = $1 and d.log_op is not null
      returning 1
    )
    select cleared.rows as out, (select count(*) from put) as in from cleared`;
}

/** Where the parts of a folded row are, as SQL: the key and the values are arrays of texts. */
export interface FoldedRow {
  readonly key: string;
  readonly id: string;
  readonly op: string;
  readonly from: string;
  readonly to: string;
  readonly vals: string;
  readonly knownFrom: string;
  readonly knownTo: string;
}

/** The columns of one of the tables, each with the expression that makes it of a folded row (law 9: by the column's own cast). */
export function placeColumns(target: Target, place: Place, row: FoldedRow): [name: string, sql: string][] {
  const end = target.kind === 'timeline' && place === 'target' ? fromAxis(target.period, row.to) : row.to;
  return [
    ...target.key.map(({ name, type }, index): [string, string] => [
      name,
      `${row.key}[${index + 1}]::${type}`,
    ]),
    ...periodColumns(target).map(({ name }, index): [string, string] => [name, index === 0 ? row.from : end]),
    ...target.values.flatMap((column, index): [string, string][] =>
      place !== 'tombstone' || column === target.version
        ? [[column.name, `${row.vals}[${index + 1}]::${column.type}`]]
        : [],
    ),
    ['_version', row.id],
    ['_known_from', row.knownFrom],
    ['_backfill', `${row.vals}[${target.values.length + 1}]`],
    ...(place === 'history' || place === 'tombstone' ? [['_known_to', row.knownTo] as [string, string]] : []),
    ...(place === 'tombstone' || place === 'shadow' ? [['_op', row.op] as [string, string]] : []),
  ];
}
