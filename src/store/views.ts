import type { ClientBase } from 'pg';
import { readTable } from '../db/catalogue.ts';
import { ident, identList } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import { userColumns } from '../change/target.ts';
import type { Column, Target, TimelineTarget } from '../change/target.ts';
import { sameValue } from './equality.ts';
import { ownObject, targetTable } from './names.ts';
import { fromAxis, toAxis } from './period-form.ts';

/** Columns of emend that `_told` shows beside the user's. */
const beliefColumns = ['_version', '_backfill', '_known_from', '_known_to'];

/**
 * The columns of `_told` and of all functions that return its rows. A view can only gain columns at its end, so columns that
 * the target gained later come after emend's own.
 */
export async function toldColumns(client: ClientBase, target: Target): Promise<string[]> {
  const wanted = [...userColumns(target).map((column) => column.name), ...beliefColumns];
  const existing = await readTable(client, 'emend', `${target.name}_told`);
  if (!existing) return wanted;
  const before = existing.columns.map((column) => column.name);
  return [...before, ...wanted.filter((name) => !before.includes(name))];
}

/**
 * Everything ever told, as rows. No condition stands in either branch: the planner then takes the view apart and pushes
 * the caller's join clause into both (a condition inside made 1,000 look-ups 1,000 sequential scans).
 */
export function toldView(target: Target, columns: readonly string[]): Statement {
  return {
    purpose: `everything told of ${target.name}`,
    sql: [
      `create or replace view ${ownObject(target, 'told')} as`,
      `select ${presentColumns(columns)}`,
      `from ${targetTable(target)}`,
      `union all`,
      `select ${columns.map((name) => historyColumn(target, name)).join(', ')}`,
      `from ${ownObject(target, 'history')}`,
    ].join('\n'),
  };
}

/** The columns of `_told` as the target itself has them: what it holds is believed until further notice. */
export function presentColumns(columns: readonly string[]): string {
  return columns
    .map((name) => (name === '_known_to' ? `'infinity'::timestamptz as _known_to` : ident(name)))
    .join(', ');
}

/** History holds ends in the axis form; what is shown has the target's. */
function historyColumn(target: Target, name: string): string {
  if (target.kind === 'facts' || name !== target.period.to.name) return ident(name);
  return `${fromAxis(target.period, ident(name))} as ${ident(name)}`;
}

/** What is believed now, as a person would draw it: touching pieces with equal values are one period (law 3). */
export function periodsView(target: TimelineTarget): Statement {
  return {
    purpose: `periods of ${target.name}`,
    sql: [
      `create or replace view ${ownObject(target, 'periods')} as`,
      periodsQuery(target, targetTable(target)),
    ].join('\n'),
  };
}

/**
 * Joins touching pieces of `source` whose values are equal, by typed equality, null equal to null. The version column orders
 * corrections and says nothing about the world: it is not shown, and keeps nothing apart.
 */
export function periodsQuery(target: TimelineTarget, source: string): string {
  const from = ident(target.period.from.name);
  const to = ident(target.period.to.name);
  const end = toAxis(target.period, to);
  const key = identList(target.key.map((column) => column.name));
  const shown = target.values.filter((column) => column !== target.version);
  const values = shown.map((column) => ident(column.name));
  const listed = (columns: readonly string[]) => columns.map((column) => `, ${column}`).join('');
  return [
    `select ${key}, ${from}, ${fromAxis(target.period, 'last_end')} as ${to}${listed(values)}`,
    `from (`,
    `  select numbered.*, max(axis_end) over (partition by ${key}, run) as last_end`,
    `  from (`,
    `    select marked.*, count(*) filter (where begins) over (partition by ${key} order by ${from}) as run`,
    `    from (`,
    `      select ${key}, ${from}, ${end} as axis_end${listed(values)},`,
    `        not coalesce(${continues(shown, from, end)}, false) as begins`,
    `      from ${source} as piece`,
    `      window in_order as (partition by ${key} order by ${from})`,
    `    ) as marked`,
    `  ) as numbered`,
    `) as joined`,
    `where begins`,
  ].join('\n');
}

function continues(values: readonly Column[], from: string, end: string): string {
  const touches = `lag(${end}) over in_order = ${from}`;
  const same = values.map((column) =>
    sameValue(column, `lag(${ident(column.name)}) over in_order`, ident(column.name)),
  );
  return [touches, ...same].join('\n          and ');
}
