import type { ClientBase, Pool } from 'pg';

/** A log row, by what names it whatever the source has been through: its number may be given out again, its nonce is not. */
export interface NamedRow {
  readonly target: string;
  readonly id: string;
  readonly nonce: string;
}

/**
 * A log row that log and ledger do not have alike. `lost`: merged, and not in the log any more · `reused`: in the log, and not
 * merged, since the ledger has its number of another row.
 */
export interface DivergedRow extends NamedRow {
  readonly kind: 'lost' | 'reused';
}

type Db = Pool | ClientBase;

/** Puts rows on record; those that are on it already stay as they are, also what was decided about them. */
export async function recordDiverged(store: Db, rows: readonly DivergedRow[]): Promise<void> {
  await store.query(
    `insert into emend.diverged (_id, _nonce, target, kind)
     select a._id, a._nonce, a.target, a.kind
     from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) as a (_id, _nonce, target, kind)
     on conflict do nothing`,
    columnWise(rows),
  );
}

/** The next open rows of these targets, in the order of number and nonce. */
export async function readOpen(
  store: Db,
  targets: readonly string[],
  after: NamedRow | null,
  limit: number,
): Promise<DivergedRow[]> {
  const { rows } = await store.query<{ kind: string; target: string; id: string; nonce: string }>(
    `select d.kind, d.target, d._id as id, d._nonce as nonce
     from emend.diverged d
     where d.resolution is null and d.target = any($1::text[])
       and ($2::bigint is null or (d._id, d._nonce) > ($2::bigint, $3::bigint))
     order by d._id, d._nonce
     limit $4::integer`,
    [targets, after?.id ?? null, after?.nonce ?? null, limit],
  );
  return rows as DivergedRow[];
}

/** Takes open rows off the record: log and ledger have them alike again, as after a return to the server that had them. */
export async function forgetDiverged(store: Db, rows: readonly DivergedRow[]): Promise<void> {
  const [ids, nonces] = columnWise(rows);
  await store.query(
    `delete from emend.diverged d
     using unnest($1::bigint[], $2::bigint[]) as a (_id, _nonce)
     where d._id = a._id and d._nonce = a._nonce and d.resolution is null`,
    [ids, nonces],
  );
}

/**
 * Whether a number was met that was given out twice, and the logs were not compared since: when the last such row was noticed,
 * or null. After a comparison, the row that had the number first is on record too.
 */
export async function readSuspicion(store: Db, targets: readonly string[]): Promise<string | null> {
  const { rows } = await store.query<{ at: string | null }>(
    `select max(d.noticed_at) as at
     from emend.diverged d
     where d.resolution is null and d.kind = 'reused' and d.target = any($1::text[])
       and not exists (select from emend.diverged o where o._id = d._id and o.kind = 'lost')`,
    [targets],
  );
  return rows[0]?.at ?? null;
}

function columnWise(rows: readonly DivergedRow[]): string[][] {
  return [
    rows.map(({ id }) => id),
    rows.map(({ nonce }) => nonce),
    rows.map(({ target }) => target),
    rows.map(({ kind }) => kind),
  ];
}
