import type { Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import type { FoldForm } from './fold-form.ts';

/**
 * Law 6: the common table expressions that record the effect in the statement, and so in the transaction, that makes it.
 * They read `known`, `fresh` (the rows that have an effect) and `told` (K).
 */
export function recordMerged(target: Target): string {
  const name = literal(target.name);
  return `
    merged as (
      insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _backfill, _actor, _reason)
      select f._id, ${name}, (select k from told), f._nonce, f._recorded_at, f._backfill, f._actor, f._reason
      from fresh f
      returning 1
    ),
    -- the floor of the next K
    counted as (
      insert into emend.merge (told_at, target, rows)
      select (select k from told), ${name}, (select count(*) from merged)
      where exists (select from fresh)
    ),
    -- law 5: a number that the ledger has of another row was given out twice, by a source that lost the first one
    reused as (
      insert into emend.diverged (_id, _nonce, target, kind)
      select k._id, k._nonce, ${name}, 'reused'
      from known k
      where k.merged_nonce <> k._nonce
      on conflict do nothing
    )`;
}

/**
 * Law 6: rows that are in the ledger, or twice in the job, have had their effect.
 *
 * The statement lists the columns of one revision of the target, and is refused under another (EM001).
 */
export function freshRows(target: Target, { arrived, numbers, revision }: FoldForm): string {
  const sameRevision = `emend.require_revision(${literal(target.name)}, ${revision})`;
  return `
    between as materialized (
      select min(a._id) as first_id, max(a._id) as last_id, count(*) > count(distinct a._id) as twice from (${numbers}) as a
    ),
    -- whether a row may have had its effect: most batches are of new numbers, and need no look-up
    met as materialized (
      select b.twice
        or exists (select from emend.ledger_recent l where l._id between b.first_id and b.last_id)
        or exists (select from emend.ledger_block l where l.from_id between b.first_id / 4096 * 4096 and b.last_id) as any
      from between b
    ),
    known as materialized (
      -- a look-up for each row, as in lookUp, and never a join with the whole ledger
      select a.*, (select l._nonce from emend.ledger_at(a._id) l) as merged_nonce
      from (${arrived}) as a
      where ${sameRevision} and (select m.any from met m)
    ),
    fresh as materialized (
      select a.*, null::bigint as merged_nonce
      from (${arrived}) as a
      where ${sameRevision} and not (select m.any from met m)
      union all
      (select distinct on (k._id) k.* from known k where k.merged_nonce is null order by k._id)
    )`;
}
