import { periodColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import { expectedRows } from './expected.ts';
import { bucketMask } from './workspace.ts';
import type { Examined } from './workspace.ts';

/** Rows compared in one statement: what it sorts stays in some tens of megabytes. */
const sliceRows = 20_000;

const buckets = bucketMask + 1;

/** Runs a statement about a range of buckets (`$1`, and `$2` the one after the last) for all of them, slice by slice. */
export async function bySlices(
  { client }: Examined,
  sql: string,
  rows: number,
  onProgress: (share: number) => void,
): Promise<void> {
  const step = Math.max(1, Math.min(buckets, Math.floor((buckets * sliceRows) / Math.max(rows, 1))));
  for (let first = 0; first < buckets; first += step) {
    await client.query(sql, [first, first + step]);
    onProgress(Math.min(1, (first + step) / buckets));
  }
}

export interface Comparison {
  /** In all: how the buckets are cut into slices. */
  readonly claims: number;
  /** A table of the form of `verify_rebuilt`, quoted: it gets what the log says of each key that differs. */
  readonly keepIn?: string;
  readonly onProgress?: (share: number) => void;
}

/** Folds the claims and compares them with what is stored; what differs is in `verify_difference`. */
export async function compare(
  examined: Examined,
  { claims, keepIn, onProgress = () => {} }: Comparison,
): Promise<void> {
  const { target } = examined;
  const key = keyNames(target);
  const folded = `
    claim as materialized (
      select key_no, key, id, op, f, t, vals, known_from as told_at, known_to as undone_at,
        row_number() over (partition by key_no order by ver desc nulls last, id desc) as rank
      from both_sides
      where of_log
    ),
    ${expectedRows(target)}`;
  const claimed = `
        select bucket, ${key}, key, null as place, id, op, f, t, ver, vals, told_at as known_from, coalesce(undone_at, 'infinity') as known_to,
          null::oid as in_table, null::tid as at_row, true as of_log
        from pg_temp.verify_claim c where ${inSlice('c')}`;
  const kept =
    keepIn &&
    `kept as (
      insert into ${keepIn}
      select k.bucket, ${keyNames(target, 'k')}, e.key, e.place, e.id, e.op, e.f, e.t, e.vals, e.known_from, e.known_to
      from expected e
      join (select distinct on (key_no) * from both_sides) k on k.key_no = e.key_no
      where e.key_no in (select key_no from difference)
    )`;
  await bySlices(examined, differenceSql(target, claimed, folded, kept), claims, onProgress);
}

/** `claim` of a slice, without what is stored: what `expectedRows` reads. */
export function sliceOfClaims(target: Target): string {
  const key = keyNames(target);
  return `claim as materialized (
      select dense_rank() over (order by ${key}) as key_no, key, id, op, f, t, vals, told_at, coalesce(undone_at, 'infinity') as undone_at,
        row_number() over (partition by ${key} order by ver desc nulls last, id desc) as rank
      from pg_temp.verify_claim c
      where ${inSlice('c')}
    )`;
}

/** Compares what was folded before, all of it, with what is stored; what differs is in `verify_difference`. */
export async function compareRebuilt(examined: Examined, table: string, rows: number): Promise<void> {
  const { target } = examined;
  const rebuilt = `
        select r.bucket, ${keyNames(target, 'r')}, r.key, r.place, r.id, r.op, r.f, r.t, null, r.vals, r.known_from, r.known_to,
          null::oid as in_table, null::tid as at_row, true as of_log
        from ${table} r where ${inSlice('r')}`;
  const expected = 'expected as materialized (select * from both_sides where of_log)';
  await bySlices(examined, differenceSql(target, rebuilt, expected), rows, () => {});
}

function inSlice(of: string): string {
  return `${of}.bucket >= $1::integer and ${of}.bucket < $2::integer`;
}

function keyNames(target: Target, of?: string): string {
  return target.key.map((_, index) => (of ? `${of}.k${index}` : `k${index}`)).join(', ');
}

/**
 * @param logSide `select` of what the log says of a slice
 * @param expected common table expressions that make `expected` of `both_sides`
 * @param kept a further one, which reads `expected` and `difference`
 */
function differenceSql(target: Target, logSide: string, expected: string, kept?: string): string {
  const key = keyNames(target);
  return `
    with
    -- one number a key, by the types' own order: equal keys may have different texts
    both_sides as materialized (
      select dense_rank() over (order by ${key}) as key_no, s.*
      from (${logSide}
        union all
        select bucket, ${key}, key, place, id, op, f, t, null, vals, known_from, known_to, in_table, at_row, false
        from pg_temp.verify_stored s where ${inSlice('s')}
      ) as s
    ),
    ${expected},
    stored as materialized (
      select s.*, row_number() over (partition by s.key_no, s.place, s.id, s.f, s.known_from) as nth
      from both_sides s
      where not s.of_log
    ),
    standing as (
      select s.*, max(s.t) over (partition by s.key_no order by s.f, s.t rows between unbounded preceding and 1 preceding) as covered_to
      from stored s
      where s.place in ('target', 'tombstone') and s.known_to = 'infinity' and s.op <> 'withdraw'
    ),
    difference as materialized (
      select
        coalesce(e.key_no, s.key_no) as key_no,
        case
          when e.id is not null and s.id is not null then 'changed'
          when s.id is null then 'missing'
          -- law 4: every correction of a key is somewhere in its fold
          when (s.key_no, s.id) in (select key_no, id from expected) then 'unexpected'
          else 'unexplained'
        end as kind,
        e.place as e_place, e.key as e_key, e.id as e_id, e.op as e_op, e.f as e_f, e.t as e_t, e.vals as e_vals, e.known_from as e_from, e.known_to as e_to,
        s.place, s.key, s.id, s.op, s.f, s.t, s.vals, s.known_from, s.known_to, s.in_table, s.at_row
      from (select *, 1::bigint as nth from expected) as e
      full join stored s on s.key_no = e.key_no and s.place = e.place and s.id = e.id and s.f = e.f and s.known_from = e.known_from and s.nth = e.nth
      where (s.key, s.op, s.t, s.vals, s.known_to) is distinct from (e.key, e.op, e.t, e.vals, e.known_to)
    )${
      kept
        ? `,
    ${kept}`
        : ''
    }
    insert into pg_temp.verify_difference
    select kind, coalesce(e_place, place), coalesce(e_key, key), coalesce(e_id, id),
      e_op, e_f, e_t, e_vals, e_from, e_to, op, f, t, vals, known_from, known_to, in_table, at_row
    from difference
    union all
    select case when f >= t then 'empty' else 'overlap' end, place, key, id,
      null, null, null, null, null, null, op, f, t, vals, known_from, known_to, null, null
    from standing
    where f >= t or f < covered_to`;
}

/** A row as one of the sides has it; all values are the server's text, ends in the axis form. */
export interface Piece {
  readonly _op: string;
  /** Key, period, values and `_backfill`. */
  readonly columns: Readonly<Record<string, string | null>>;
  readonly _known_from: string;
  readonly _known_to: string | null;
}

export interface Difference {
  /**
   * `missing`: only the log says so · `changed`: the same row, and not as the log says · `unexpected`: only the store has it ·
   * `unexplained`: the same, of a correction that its key does not have · `overlap`, `empty`: a standing piece that no fold makes.
   */
  readonly kind: 'missing' | 'changed' | 'unexpected' | 'unexplained' | 'overlap' | 'empty';
  readonly place: 'target' | 'history' | 'tombstone' | 'shadow';
  /** The correction that the row is of. */
  readonly _id: string;
  readonly log: Piece | null;
  readonly store: Piece | null;
}

/** The first differences, by key. */
export async function readDifferences({ client, target }: Examined, limit: number): Promise<Difference[]> {
  const { rows } = await client.query<{ difference: string }>(
    `select json_build_object('kind', kind, 'place', place, '_id', id::text,
       'log', ${pieceJson(target, 'log')}, 'store', ${pieceJson(target, 'store')})::text as difference
     from pg_temp.verify_difference
     order by key, coalesce(log_from, store_from), id, place
     limit $1`,
    [limit],
  );
  return rows.map((row) => JSON.parse(row.difference) as Difference);
}

function pieceJson(target: Target, side: 'log' | 'store'): string {
  const texts: [name: string, sql: string][] = [
    ...target.key.map(({ name }, index): [string, string] => [name, `key[${index + 1}]`]),
    ...periodColumns(target).map(({ name }, index): [string, string] => [
      name,
      `${side}_${index === 0 ? 'from' : 'to'}::text`,
    ]),
    ...[...target.values.map(({ name }) => name), '_backfill'].map((name, index): [string, string] => [
      name,
      `${side}_vals[${index + 1}]`,
    ]),
  ];
  const names = `array[${texts.map(([name]) => literal(name)).join(', ')}]`;
  // built from two arrays: a function takes a hundred arguments at most, a table may have more columns
  return `
       case when ${side}_op is not null then json_build_object(
         '_op', ${side}_op, 'columns', json_object(${names}, array[${texts.map(([, sql]) => sql).join(', ')}]),
         '_known_from', ${side}_known_from::text, '_known_to', ${side}_known_to::text) end`;
}
