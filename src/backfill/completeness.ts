import type { ClientBase } from 'pg';
import { textsDigest } from '../change/row-digest.ts';
import type { Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import { ownObject } from '../store/names.ts';

/** What the store holds of a backfill in one target. */
export interface Held {
  /** Staged, and dismissed by name. */
  readonly rows: number;
  /** The sum of their digests. */
  readonly digest: string;
  /** Rows that are set aside: they block the backfill until they are retried or dismissed. */
  readonly setAside: number;
}

/**
 * Counted and digested anew, whatever jobs said: redeliveries, halves and lost jobs do not matter to it. A row that was set
 * aside and dismissed by name counts with the digest of the texts that it came with.
 *
 * @param digested columns that are in the digest
 */
export async function readHeld(
  store: ClientBase,
  target: Target,
  backfill: string,
  digested: readonly string[],
): Promise<Held> {
  const digest = textsDigest(digested.map((name) => `(d.log_row ->> ${literal(name)})`));
  const { rows } = await store.query<{ rows: string; digest: string; set_aside: string }>(
    `with letters as (
       select d._id, ${digest} as digest,
         exists (select from emend.ledger_at(d._id) l where l.dismissed is not null) as dismissed
       from emend.dead_letter d
       where d.target = $2 and d.log_row ->> '_backfill' = $1
         and not exists (select from ${ownObject(target, 'staged')} s where s._id = d._id)
     ),
     held as (
       select s._digest as digest from ${ownObject(target, 'staged')} s where s._backfill = $1
       union all
       select l.digest from letters l where l.dismissed
     )
     select (select count(*) from held)::text as rows,
       (select coalesce(sum(h.digest), 0) from held h)::text as digest,
       (select count(*) from letters l where not l.dismissed)::text as set_aside`,
    [backfill, target.name],
  );
  const { rows: count, digest: sum, set_aside: setAside } = rows[0]!;
  return { rows: Number(count), digest: sum, setAside: Number(setAside) };
}
