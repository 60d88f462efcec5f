import type { ClientBase, Pool } from 'pg';
import { arrayText } from '../db/array-text.ts';

/** Log rows by their names, in columns: what the ledger knows them by. */
export interface NamedRows {
  readonly ids: readonly string[];
  readonly nonces: readonly string[];
  readonly targets: readonly string[];
}

/**
 * Of these log rows, the ids of those that have had no effect: neither merged nor dismissed, nor ever set aside. A row whose
 * number the ledger has of another row is none of them, and is not passed over either: it goes on record as diverged.
 *
 * Each row is looked up by its number: a plan that takes ten thousand rows for a few must not become a join of all of them.
 */
export async function withoutEffect(
  store: Pool | ClientBase,
  { ids, nonces, targets }: NamedRows,
): Promise<string[]> {
  const found = await store.query<{ id: string }>(
    `with known as materialized (
       select a.*, (select l._nonce from emend.ledger_at(a._id) l) as merged_nonce
       from unnest($1::bigint[], $2::bigint[], $3::text[]) as a (_id, _nonce, target)
     ),
     reused as (
       insert into emend.diverged (_id, _nonce, target, kind)
       select k._id, k._nonce, k.target, 'reused' from known k where k.merged_nonce <> k._nonce
       on conflict do nothing
     )
     select k._id as id
     from known k
     where k.merged_nonce is null
       and not exists (
         select from emend.dead_letter d
         where d._id = k._id and (d.log_row ->> '_nonce')::bigint = k._nonce
         offset 0
       )`,
    [arrayText(ids), arrayText(nonces), arrayText(targets)],
  );
  return found.rows.map(({ id }) => id);
}
