import type { ClientBase } from 'pg';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ident, identList } from '../db/identifier.ts';
import type { AppendColumn } from '../log/append-columns.ts';
import { logTable } from '../log/log-columns.ts';
import { explainBadRow } from './bad-row.ts';
import type { BadRow } from './bad-row.ts';
import { runHalving } from './halving.ts';
import type { FileRow, UnreadRow } from './file-row.ts';
import type { RowWriting } from './row-writing.ts';

/**
 * Writes rows, and returns their `_id`s in the order of the rows: the later row wins. Those that cannot be read, or that the log
 * refuses, are told to `onBad`, which throws to stop: the first one that it is told is the first of the rows.
 */
export async function insertRows(
  client: ClientBase,
  writing: RowWriting,
  rows: readonly (FileRow | UnreadRow)[],
  onBad: (row: FileRow | UnreadRow, bad: BadRow) => void,
): Promise<string[]> {
  const refused = new Map<FileRow | UnreadRow, BadRow>();
  for (const row of rows) {
    const bad = 'problem' in row ? { column: null, rule: row.problem } : badField(writing, row);
    if (bad) refused.set(row, bad);
  }
  const write = (part: readonly (FileRow | UnreadRow)[]): Promise<string[]> =>
    runHalving(
      client,
      part.filter((row): row is FileRow => !refused.has(row)),
      (some) => insertAll(client, writing, some),
      async (row, error) => onBad(row, await explainBadRow(client, writing, row, error)),
    );
  const place = rows.findIndex((row) => refused.has(row));
  if (place < 0) return write(rows);
  // what the log says to the rows before it comes first
  const before = await write(rows.slice(0, place));
  for (const [row, bad] of refused) onBad(row, bad);
  return [...before, ...(await write(rows.slice(place)))];
}

/**
 * One parameter a column, each an array of texts that is cast once, without length: an assignment refuses what a cast would
 * cut. A column that a row leaves out gets its default, whatever the rows beside it state.
 */
async function insertAll(
  client: ClientBase,
  { target, name, columns, openStart }: RowWriting,
  rows: readonly FileRow[],
): Promise<string[]> {
  const start = openStart === true && target.kind === 'timeline' ? target.period.from.name : undefined;
  const stated = columns.filter(
    (column) => isStated(target, column) && rows.some(({ values }) => column.name in values),
  );
  const arrays: { alias: string; cast: string; values: readonly (string | boolean | null)[] }[] = [];
  const expressions = stated.map((column, place) => {
    const texts = rows.map(
      ({ values }) => values[column.name] ?? (column.name === start ? '-infinity' : null),
    );
    arrays.push({ alias: `c${place}`, cast: 'text[]', values: texts });
    const value = `r.c${place}::${column.type}`;
    if (column.defaultSql === null || rows.every(({ values }) => column.name in values)) return value;
    arrays.push({
      alias: `d${place}`,
      cast: 'boolean[]',
      values: rows.map(({ values }) => !(column.name in values)),
    });
    return `case when r.d${place} then ${column.defaultSql} else ${value} end`;
  });
  arrays.push({ alias: 'op', cast: 'text[]', values: rows.map((row) => opOf(target, row)) });
  arrays.push({
    alias: 'reason',
    cast: 'text[]',
    values: rows.map(({ values }) => values['_reason'] ?? null),
  });
  const { rows: added } = await client.query<{ id: string }>(
    `insert into ${logTable(target)} (${identList([...stated.map((column) => column.name), '_op', '_reason', '_backfill'])})
     select ${[...expressions, `coalesce(r.op, 'upsert')`, 'r.reason', '$1'].join(', ')}
     from unnest(${arrays.map(({ cast }, place) => `$${place + 2}::${cast}`).join(', ')})
       with ordinality as r (${[...arrays.map(({ alias }) => alias), 'place'].join(', ')})
     order by r.place
     returning _id::text as id`,
    [name, ...arrays.map(({ values }) => values)],
  );
  return added.map((row) => row.id);
}

function isStated(target: Target, { name }: AppendColumn): boolean {
  return statedColumns(target).some((column) => column.name === name);
}

/** `_op`, or `op` where the target has no column of that name. */
function opOf(target: Target, { values }: FileRow): string | null {
  const isFree = !statedColumns(target).some(({ name }) => name === 'op');
  return values['_op'] ?? (isFree ? (values['op'] ?? null) : null);
}

/** What is wrong with a row before it is sent. */
function badField({ target, ignore, columns }: RowWriting, row: FileRow): BadRow | undefined {
  const { values, objects = [] } = row;
  const known = new Set([
    ...statedColumns(target).map(({ name }) => name),
    'op',
    '_op',
    '_reason',
    ...ignore,
  ]);
  for (const [column, text] of Object.entries(values)) {
    if (!known.has(column)) return unknownField(target, row, column, known);
    // half of a surrogate pair would be replaced on the way, without a word (law 9)
    if (text !== null && /\p{Surrogate}/u.test(text)) {
      return { column, rule: 'it has half of a surrogate pair, which Postgres cannot hold' };
    }
    // its JSON text would stand in a column that is not for it, as `correct()` refuses too
    if (objects.includes(column) && !ignore.includes(column) && !isJson(columns, column)) {
      return { column, rule: 'it is a JSON object, and the column is not json' };
    }
  }
  return undefined;
}

/** A field of no column. */
function unknownField(
  { name }: Target,
  { values, isHeaded }: FileRow,
  column: string,
  known: ReadonlySet<string>,
): BadRow {
  const bad = { isShape: true, column: null, ...(isHeaded === true ? { line: 1 } : {}) };
  const separator = isHeaded === true && Object.keys(values).length === 1 && /[;\t|]/.exec(column)?.[0];
  if (separator) {
    const rule = `the header is one column, with ${JSON.stringify(separator)} in it: columns are separated by commas`;
    return { ...bad, rule };
  }
  const meant = [...known].find((each) => each.toLowerCase() === column.toLowerCase());
  const hint = meant === undefined ? '' : `: did you mean ${ident(meant)}?`;
  return {
    ...bad,
    rule: `${name} has no column ${ident(column)}${hint} (to leave it out: --ignore ${column})`,
  };
}

function isJson(columns: readonly AppendColumn[], name: string): boolean {
  return columns.some((column) => column.name === name && ['json', 'jsonb'].includes(column.type));
}
