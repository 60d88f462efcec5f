import type { ClientBase, Pool } from 'pg';
import { literal, qualified } from '../db/identifier.ts';

/** A row's place in the order of the sweep: by transaction, then by id, over all logs. */
export interface Place {
  readonly xid: bigint;
  readonly id: bigint;
}

export interface LogRow extends Place {
  readonly target: string;
  /** With the id, it names the row whatever the source has been through. */
  readonly nonce: string;
}

/** The place in front of a transaction's first row. */
export function startOf(xid: bigint): Place {
  return { xid, id: -(2n ** 63n) };
}

export function laterOf(one: Place, other: Place): Place {
  const isLater = one.xid > other.xid || (one.xid === other.xid && one.id > other.id);
  return isLater ? one : other;
}

export interface SourceNow {
  /** System identifier and timeline: transaction ids of one mean nothing in another. */
  readonly identity: string;
  /** When the server was started: to put an older state in its place, it has to be. */
  readonly startedAt: string;
  /** Every transaction below it has ended: all of its rows that ever will be visible are so in any later snapshot. */
  readonly horizon: bigint;
  /** No transaction from here on has ended yet. Above the horizon while one that has written is open, anywhere in the cluster. */
  readonly next: bigint;
}

/** To be asked before the rows are read. Afterwards, a row that committed in between could be taken for one that never was. */
export async function readSourceNow(source: Pool | ClientBase): Promise<SourceNow> {
  const { rows } = await source.query<{ identity: string; started_at: string; xmin: string; xmax: string }>(
    `select system.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as identity,
            pg_postmaster_start_time()::text as started_at,
            pg_snapshot_xmin(pg_current_snapshot())::text as xmin,
            pg_snapshot_xmax(pg_current_snapshot())::text as xmax
     from pg_control_system() as system`,
  );
  const { identity, started_at: startedAt, xmin, xmax } = rows[0]!;
  return { identity, startedAt, horizon: BigInt(xmin), next: BigInt(xmax) };
}

/** The greatest `_id` of each log, or null for an empty one. */
export async function readLastIds(
  source: Pool | ClientBase,
  targets: readonly string[],
): Promise<Map<string, bigint | null>> {
  const { rows } = await source.query<{ target: string; id: string | null }>(
    targets
      .map((target) => `select ${literal(target)} as target, max(_id)::text as id from ${logOf(target)}`)
      .join(' union all '),
  );
  return new Map(rows.map(({ target, id }) => [target, id === null ? null : BigInt(id)]));
}

/** The part of a log that a page may come from: after a place, and up to a transaction (exclusive) or an id (inclusive). */
export interface Stretch {
  readonly target: string;
  readonly after: Place;
  readonly end: { readonly belowXid: bigint } | { readonly upToId: bigint };
}

/** The next rows of several logs in one order, by the index on `(_xid, _id)`. */
export async function readPage(
  source: Pool | ClientBase,
  stretches: readonly Stretch[],
  limit: number,
): Promise<LogRow[]> {
  const { branches, values } = pageOf(stretches, limit);
  const { rows } = await source.query<{ target: string; xid: string; id: string; nonce: string }>(
    `select target, _xid::text as xid, _id::text as id, _nonce::text as nonce
     from (${branches.join('\n union all ')}) as log
     order by log._xid, log._id
     limit $1::bigint`,
    values,
  );
  return rows.map(({ target, xid, id, nonce }) => ({ target, nonce, xid: BigInt(xid), id: BigInt(id) }));
}

/** The rows of a page, from each log; the first parameter is how many at most. */
function pageOf(
  stretches: readonly Stretch[],
  limit: number,
): { readonly branches: readonly string[]; readonly values: string[] } {
  const values: string[] = [String(limit)];
  const parameter = (value: bigint): string => `$${values.push(String(value))}`;
  const branches = stretches.map(({ target, after, end }) => {
    const ends =
      'belowXid' in end
        ? `_xid < ${parameter(end.belowXid)}::xid8`
        : `_id <= ${parameter(end.upToId)}::bigint`;
    return `(select ${literal(target)} as target, _xid, _id, _nonce
             from ${logOf(target)}
             where _backfill is null
               and (_xid, _id) > (${parameter(after.xid)}::xid8, ${parameter(after.id)}::bigint)
               and ${ends}
             order by _xid, _id
             limit $1::bigint)`;
  });
  return { branches, values };
}

/** A page as a whole: its place, and a digest of all live rows that the logs have under its numbers. */
export interface PageDigest {
  readonly rows: number;
  readonly last: Place;
  readonly firstId: bigint;
  readonly lastId: bigint;
  /** Count, and xor of the nonces. */
  readonly digest: string;
}

/** Numbers between which the rows of a page may lie, as a multiple of the page: beyond it, to digest costs more than to read. */
const widest = 4;

/** What `readPage` would read next, without the rows; null where there are none, or their numbers lie too far apart. */
export async function digestPage(
  source: Pool | ClientBase,
  stretches: readonly Stretch[],
  limit: number,
): Promise<PageDigest | null> {
  const { branches, values } = pageOf(stretches, limit);
  const logs = stretches.map(
    ({ target }) =>
      `select _nonce from ${logOf(target)} where _backfill is null and _id between ends.first_id and ends.last_id`,
  );
  const { rows } = await source.query<Record<'rows' | 'first' | 'last' | 'xid' | 'id' | 'digest', string>>(
    `with page as materialized (
       select log._xid, log._id
       from (${branches.join('\n union all ')}) as log
       order by log._xid, log._id
       limit $1::bigint
     ),
     ends as materialized (
       select count(*) as rows, min(_id) as first_id, max(_id) as last_id from page
     )
     select ends.rows, ends.first_id as first, ends.last_id as last, furthest._xid::text as xid, furthest._id as id, logged.digest
     from ends
     cross join lateral (select * from page order by _xid desc, _id desc limit 1) as furthest
     cross join lateral (
       select count(*) || ' ' || bit_xor(_nonce) as digest from (${logs.join(' union all ')}) as numbered
     ) as logged
     where ends.last_id - ends.first_id < ${widest} * $1::bigint`,
    values,
  );
  const [page] = rows;
  if (!page) return null;
  return {
    rows: Number(page.rows),
    last: { xid: BigInt(page.xid), id: BigInt(page.id) },
    firstId: BigInt(page.first),
    lastId: BigInt(page.last),
    digest: page.digest,
  };
}

/** Whether this transaction has ended for every later snapshot, and all before it. */
export async function hasEnded(source: Pool | ClientBase, xid: bigint): Promise<boolean> {
  const { rows } = await source.query<{ ended: string }>(
    `select (pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8)::text as ended`,
    [String(xid)],
  );
  return rows[0]!.ended === 'true';
}

/** Whole rows of one log as the server's own text (law 9: the session is pinned), by `_id`. */
export async function readRows(
  source: Pool | ClientBase,
  target: string,
  ids: readonly bigint[],
): Promise<{ columns: string[]; rows: Map<bigint, Record<string, string | null>> }> {
  const { fields, rows } = await source.query<Record<string, string | null>>(
    `select * from ${logOf(target)} where _id = any($1::bigint[])`,
    [ids.map(String)],
  );
  return {
    columns: fields.map(({ name }) => name),
    rows: new Map(rows.map((row) => [BigInt(row['_id']!), row])),
  };
}

function logOf(target: string): string {
  return qualified('corrections', target);
}
