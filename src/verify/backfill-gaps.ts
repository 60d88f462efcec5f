import { ownObject } from '../store/names.ts';
import type { Examined } from './workspace.ts';

/**
 * What the store has to hold of backfills, by the state that it has them in (law 5): before all rows are staged, whatever has
 * come by then; after it each of them, staged; from the promote on each in the ledger, and where it was abandoned, dismissed
 * there. It reads the gaps of kind `in_backfill`, log rows that the ledger does not have, and leaves none of that kind.
 */
export async function findBackfillGaps({ client, target, until }: Examined): Promise<void> {
  // the store has its effect, and only the ledger lost it
  await client.query(
    `update pg_temp.verify_gap g set kind = 'not_merged'
     where g.kind = 'in_backfill' and exists (select from pg_temp.verify_stored s where s.id = g.id)`,
  );
  // state and staged rows in one statement, so as of one moment: a promote takes them out
  await client.query(
    `update pg_temp.verify_gap g set kind = 'not_held'
     from emend.backfill b
     where g.kind = 'in_backfill' and b.name = g.backfill and b.state not in ('open', 'sealed')
       and not (b.state in ('staged', 'checked') and exists (select from ${ownObject(target, 'staged')} s where s._id = g.id))`,
  );
  await client.query(`delete from pg_temp.verify_gap where kind = 'in_backfill'`);
  // law 1: visible means promoted, and not reverted; an import has no state here. Sets are intersected, not joined: a join with
  // a table that was filled a moment ago could be quadratic
  await client.query(
    `insert into pg_temp.verify_gap (kind, id)
     select 'not_promoted', n.id
     from (
       ${ledgerOfBackfills("b.state not in ('promoted', 'reverted')")}
       intersect
       select c.id from pg_temp.verify_claim c
     ) as n (id)
     union all
     select 'not_undone', r.id
     from (
       (
         ${ledgerOfBackfills("b.state = 'reverted' and b.reverted_at <= $2::timestamptz")}
         intersect
         select c.id from pg_temp.verify_claim c
       )
       except
       select u._id from emend.undone u where u.target = $1
     ) as r (id)`,
    [target.name, until],
  );
}

/** The numbers that the ledger has of a target, of backfills in some state; $1 is the target's name. */
function ledgerOfBackfills(state: string): string {
  return `select l._id
       from emend.backfill b
       cross join lateral emend.ledger_of_backfill(b.name) as l
       where ${state} and l.target = $1`;
}
