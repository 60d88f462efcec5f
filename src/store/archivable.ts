import type { ClientBase, Pool } from 'pg';

/** A log row that may be moved to a file. */
export interface Candidate {
  readonly id: string;
  readonly nonce: string;
  readonly backfill: string | null;
}

/**
 * Of these rows of a log, in the order of their numbers, the ids of those whose log row nobody will ask for: it had its effect (or is
 * dismissed), nothing is to be decided about it, and its backfill has come to an end. A row that is set aside is in no ledger, and stays.
 */
export async function archivableIds(
  store: Pool | ClientBase,
  target: string,
  rows: readonly Candidate[],
): Promise<string[]> {
  if (rows.length === 0) return [];
  const backfills = [...new Set(rows.flatMap(({ backfill }) => (backfill === null ? [] : [backfill])))];
  // sets are intersected, since nothing is known of the parameters when a join is planned: it could be quadratic
  const { rows: found } = await store.query<{ id: string }>(
    `select had.id
     from (
       select l._id, l._nonce from emend.ledger_between($2::bigint, $3::bigint) l where l.target = $1
       intersect
       select a.id, a.nonce from unnest($4::bigint[], $5::bigint[]) as a (id, nonce)
     ) as had (id, nonce)
     where not exists (select from emend.diverged d where d._id = had.id and d.resolution is null)
     order by had.id`,
    [target, rows[0]!.id, rows.at(-1)!.id, rows.map(({ id }) => id), rows.map(({ nonce }) => nonce)],
  );
  const { rows: unfinished } = await store.query<{ name: string }>(
    `select b.name from emend.backfill b where b.name = any($1::text[]) and b.state not in ('promoted', 'reverted', 'abandoned')`,
    [backfills],
  );
  const open = new Set(unfinished.map(({ name }) => name));
  const kept = new Set(rows.filter(({ backfill }) => open.has(backfill ?? '')).map(({ id }) => id));
  return found.map(({ id }) => id).filter((id) => !kept.has(id));
}

/** How many of the rows of a file the ledger does not have. */
export async function countLacking(
  store: Pool | ClientBase,
  file: {
    readonly target: string;
    readonly rows: number;
    readonly nonces: string;
    readonly firstId: string;
    readonly lastId: string;
  },
  ids: string,
): Promise<number> {
  const { rows } = await store.query<{ rows: string; nonces: string | null }>(
    `select count(*) as rows, bit_xor(l._nonce) as nonces
     from emend.ledger_between($1::bigint, $2::bigint) l
     where l.target = $3 and l._id <@ $4::int8multirange`,
    [file.firstId, file.lastId, file.target, ids],
  );
  const found = Number(rows[0]!.rows);
  // other rows under the same numbers are as good as none
  return found === file.rows && rows[0]!.nonces !== file.nonces ? file.rows : file.rows - found;
}

/** Notes of a file how many of its rows the ledger lacks; 0 before its rows leave the log. */
export async function noteArchive(
  store: Pool | ClientBase,
  { sha256, target, file, rows }: { sha256: string; target: string; file: string; rows: number },
  lacking: number,
): Promise<void> {
  await store.query(
    `insert into emend.archive (sha256, target, file, rows, lacking)
     values ($1, $2, $3, $4::bigint, $5::bigint)
     on conflict (sha256) do update
     set file = excluded.file, lacking = excluded.lacking, compared_at = clock_timestamp()`,
    [sha256, target, file, String(rows), String(lacking)],
  );
}
