import type { ClientBase, Pool } from 'pg';

/** Of these log rows, the ids of those that have had no effect: neither merged nor dismissed, nor ever set aside. */
export async function withoutEffect(store: Pool | ClientBase, ids: readonly string[]): Promise<string[]> {
  const { rows } = await store.query<{ id: string }>(
    `select asked.id
     from unnest($1::bigint[]) as asked (id)
     where not exists (select from emend.ledger l where l._id = asked.id)
       and not exists (select from emend.dead_letter d where d._id = asked.id)`,
    [ids],
  );
  return rows.map((row) => row.id);
}
