import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { withTransaction } from '../db/transaction.ts';
import { holdFence } from '../merge/fence.ts';
import { ownObject } from '../store/names.ts';
import { recordDone } from './request.ts';
import type { Request } from './request.ts';
import { allIds, readBackfillRows } from './stage.ts';
import { moveTo } from './state.ts';

/**
 * Throws a backfill away unseen: nothing is left of it in the store but the record. Law 5: each of its log rows is dismissed in
 * the ledger, with who and why, so that nothing looks for them any more. In one transaction: a promote takes a dismissed row for
 * one that is done, and would make the others visible without it (law 7).
 */
export async function abandon(
  { source, store }: { readonly source: Pool; readonly store: Pool },
  backfill: string,
  targets: readonly Target[],
  request: Request,
  outcome = 'abandoned',
): Promise<void> {
  await withTransaction(store, async (client) => {
    await holdFence(client, backfill);
    // first: it waits for those that stage rows, and whoever comes to stage some waits for it
    await moveTo(client, backfill, 'abandoned', request);
    await client.query(`update emend.backfill set wish = null where name = $1`, [backfill]);
    for (const target of targets) {
      await client.query(`delete from ${ownObject(target, 'staged')} where _backfill = $1`, [backfill]);
      for await (const rows of readBackfillRows(source, { backfill, target, ...allIds }))
        await dismissRows(client, rows, request);
    }
    await client.query(`delete from emend.backfill_change where backfill = $1`, [backfill]);
    await recordDone(client, request, outcome);
  });
}

async function dismissRows(store: ClientBase, rows: LogRows, { actor, reason }: Request): Promise<void> {
  const column = (name: string) => rows.values[rows.columns.indexOf(name)];
  await store.query(
    `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _backfill, _actor, _reason, dismissed, dismissed_by, dismissed_reason)
     select a._id, $1, clock_timestamp(), a._nonce, a._recorded_at, a._backfill, a._actor, a._reason, 'abandoned', coalesce($8, current_user), $9
     from unnest($2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[], $6::text[], $7::text[])
       as a (_id, _nonce, _recorded_at, _backfill, _actor, _reason)
     on conflict (_id) do nothing`,
    [
      rows.target,
      column('_id'),
      column('_nonce'),
      column('_recorded_at'),
      column('_backfill'),
      column('_actor'),
      column('_reason'),
      actor,
      reason,
    ],
  );
}
