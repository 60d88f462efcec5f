import { textsDigest } from '../change/row-digest.ts';
import { arrayText } from '../db/array-text.ts';
import { ident, identList } from '../db/identifier.ts';
import type { LogRows } from '../change/batch.ts';
import { uniformText } from '../change/uniform.ts';
import { statedColumns } from '../change/target.ts';
import type { Column, Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { ownObject } from '../store/names.ts';
import { openEnd, toAxis } from '../store/period-form.ts';

/** emend's columns of a log row that a merge needs. */
const logColumns: readonly { name: string; baseType: string }[] = [
  { name: '_id', baseType: 'bigint' },
  { name: '_op', baseType: 'text' },
  { name: '_nonce', baseType: 'bigint' },
  { name: '_recorded_at', baseType: 'timestamp with time zone' },
  { name: '_backfill', baseType: 'text' },
  { name: '_actor', baseType: 'text' },
  { name: '_reason', baseType: 'text' },
];

/** Those of which most batches have one text for all rows: it is sent once. Each takes a second parameter, behind the arrays. */
const uniformColumns = ['_op', '_recorded_at', '_backfill', '_actor', '_reason'];

function arrivingColumns(target: Target): { name: string; baseType: string }[] {
  return [...statedColumns(target), ...logColumns];
}

/**
 * The parameters of `arrivedRows`: one array of texts a column, and the one text of those columns whose rows all have the same;
 * their arrays are empty, which `unnest` fills up with nulls.
 *
 * @param defaults texts for columns that `rows` does not have: it was written before the target gained them
 */
export function arrivedParameters(
  target: Target,
  rows: LogRows,
  defaults: ReadonlyMap<string, string | null>,
): (string | null)[] {
  refuseUnknownColumns(target, rows);
  const count = rows.values[0]?.length ?? 0;
  const uniform = new Map<string, string | null>();
  const arrays = arrivingColumns(target).map(({ name }) => {
    const place = rows.columns.indexOf(name);
    if (place < 0) return arrayText(new Array<string | null>(count).fill(defaults.get(name) ?? null));
    const texts = rows.values[place]!;
    const text = uniformColumns.includes(name) ? uniformText(texts) : undefined;
    if (text === undefined) return arrayText(texts);
    uniform.set(name, text);
    return arrayText([]);
  });
  return [...arrays, ...uniformColumns.map((name) => uniform.get(name) ?? null)];
}

/** Columns with a default that `rows` was written without. */
export function columnsGained(target: Target, rows: LogRows): Column[] {
  return statedColumns(target).filter(
    ({ name, defaultSql }) => defaultSql !== null && !rows.columns.includes(name),
  );
}

/** A column that the store does not have would be dropped in silence: work waits until `migrate` has brought both together. */
function refuseUnknownColumns(target: Target, rows: LogRows): void {
  const known = new Set(statedColumns(target).map((column) => column.name));
  const unknown = rows.columns.filter((name) => !name.startsWith('_') && !known.has(name));
  if (unknown.length === 0) return;
  throw new EmendError(
    'not_migrated',
    `corrections.${target.name} has columns that target ${target.name} does not have: ${unknown.map(ident).join(', ')}`,
    {
      remedy: `Add them to ${target.schema}.${target.table}, run emend migrate, and restart the workers; the rows wait meanwhile.`,
    },
  );
}

/** `select` of the rows of a backfill that were staged, as `arrivedRows` gives those of the queue. Its parameter is the backfill. */
export function stagedRows(target: Target, parameter: string): string {
  const columns = identList(arrivingColumns(target).map(({ name }) => name));
  return `select ${columns}\nfrom ${ownObject(target, 'staged')}\nwhere _backfill = ${parameter}`;
}

/** `select` of their `_id`, with the same parameter. */
export function stagedNumbers(target: Target, parameter: string): string {
  return `select _id from ${ownObject(target, 'staged')} where _backfill = ${parameter}`;
}

/** The columns of a log row that are in its digest, in order. */
export function digestColumns(target: Target): readonly string[] {
  return ['_id', '_op', ...statedColumns(target).map(({ name }) => name)];
}

/**
 * Stages rows of backfills as they arrive; its parameters are `arrivedParameters`. A row that is staged already stays.
 * Each keeps the digest of its texts, which the casts may write in another way.
 *
 * @param digested columns that are in the digest; default: those that the target has now
 *
 * Only while their backfill waits for rows: a job that comes again late would leave rows behind one that is promoted or
 * abandoned. `for share` waits for the transaction that abandons it, and keeps another one from beginning.
 */
export function stageSql(target: Target, digested = digestColumns(target)): string {
  const arriving = arrivingColumns(target).map(({ name }) => name);
  const names = identList(arriving);
  // a column that the target has lost has no text any more, and the digest is another one
  const digest = textsDigest(
    digested.map((name) => (arriving.includes(name) ? givenText(target, name, 1, 'text') : 'null::text')),
  );
  const backfill = givenText(target, '_backfill', 1, 'text');
  const backfills = `$${arriving.indexOf('_backfill') + 1}::text[] || $${uniformParameter(target, '_backfill', 1)}::text`;
  return `
    with waiting as materialized (
      select b.name
      from emend.backfill b
      where b.name = any (${backfills}) and b.state in ('open', 'sealed')
      for share
    )
    insert into ${ownObject(target, 'staged')} (${names}, _digest)
    ${arrivedRows(target, 1, [`${digest} as _digest`])}
    where ${backfill} in (select w.name from waiting w)
    on conflict (_id) do nothing`;
}

/** The columns of a log row that a merge needs, as they stand in a select of the log, or in a table of texts. */
export function arrivingNames(target: Target): readonly string[] {
  return arrivingColumns(target).map(({ name }) => name);
}

/**
 * The same for rows of one backfill, `$1`, whose texts stand in a table: `$2` is the `_recorded_at` of those that have none there.
 *
 * @param texts a table with the columns of `arrivingNames`, of type text
 * @param conflict what becomes of a row that is staged already, as SQL; empty: the statement fails
 */
export function stageTextsSql(
  target: Target,
  texts: string,
  conflict: '' | 'on conflict (_id) do nothing',
  digested = digestColumns(target),
): string {
  const arriving = arrivingColumns(target);
  const shared = new Map([
    ['_backfill', '$1::text'],
    ['_recorded_at', 'coalesce(a._recorded_at::timestamptz, $2::timestamptz)'],
  ]);
  const values = arriving.map(
    ({ name, baseType }) => shared.get(name) ?? inAxisForm(target, name, `a.${ident(name)}::${baseType}`),
  );
  const known = new Set(arriving.map(({ name }) => name));
  const digest = textsDigest(digested.map((name) => (known.has(name) ? `a.${ident(name)}` : 'null::text')));
  return `
    with waiting as materialized (
      select b.name
      from emend.backfill b
      where b.name = $1 and b.state in ('open', 'sealed')
      for share
    )
    insert into ${ownObject(target, 'staged')} (${identList(arrivingNames(target))}, _digest)
    select ${[...values, digest].join(', ')}
    from ${texts} a
    where exists (select from waiting)
    ${conflict}`;
}

/**
 * `select` of the arrived rows, typed. Law 9: each value is cast once, from the server's own text. The cast is to the type
 * without its length, because a cast to `varchar(3)` cuts silently; the insert into the target then refuses what is too long.
 *
 * @param first number of the first parameter, see `arrivedParameters`
 * @param further expressions over the texts, as `a`, to select beside them
 */
export function arrivedRows(target: Target, first = 1, further: readonly string[] = []): string {
  const columns = arrivingColumns(target);
  const casts = columns.map((column) => `${typed(target, column, first)} as ${ident(column.name)}`);
  return `select ${[...casts, ...further].join(', ')}\nfrom (${texts(columns, first)}) as a`;
}

/** `select` of their `_id`, with the same parameters: asked before anything else of them is read. */
export function arrivedNumbers(target: Target): string {
  const place = arrivingColumns(target).findIndex(({ name }) => name === '_id') + 1;
  return `select unnest($${place}::text[])::bigint as _id`;
}

/** The end of a period in the axis form; an end that the log left out is open. */
function typed(
  target: Target,
  { name, baseType }: { name: string; baseType: string },
  first: number,
): string {
  return inAxisForm(target, name, givenText(target, name, first, baseType));
}

function inAxisForm(target: Target, name: string, cast: string): string {
  if (target.kind === 'facts' || name !== target.period.to.name) return cast;
  return `coalesce(${toAxis(target.period, cast)}, ${openEnd(target.period)})`;
}

/** What a row states in a column, cast: its own text, or that of all rows. */
function givenText(target: Target, name: string, first: number, type: string): string {
  const own = `a.${ident(name)}::${type}`;
  if (!uniformColumns.includes(name)) return own;
  return `coalesce(${own}, $${uniformParameter(target, name, first)}::${type})`;
}

function uniformParameter(target: Target, name: string, first: number): number {
  return first + arrivingColumns(target).length + uniformColumns.indexOf(name);
}

/** `select` of the texts, side by side. Not `from unnest(…)`: that puts each array down as a table of its own first. */
function texts(columns: readonly { name: string }[], first: number): string {
  return `select ${columns.map(({ name }, index) => `unnest($${first + index}::text[]) as ${ident(name)}`).join(', ')}`;
}
