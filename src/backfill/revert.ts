import type { Target } from '../change/target.ts';
import { identList } from '../db/identifier.ts';
import { refoldAt } from '../merge/refold.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { inWorkableOrder, withinFence } from './promotion.ts';
import type { Promotion } from './promotion.ts';
import { recordDone } from './request.ts';
import type { Request } from './request.ts';
import { moveTo } from './state.ts';

/**
 * Takes a promoted backfill back: the answer becomes what it would be had it never been promoted; later corrections stay, and
 * history shows all three beliefs (law 4). Each of its corrections counts as taken back, as by `emend undo`, at one K.
 */
export async function revert(promotion: Promotion, request: Request): Promise<void> {
  const { backfill, targets } = promotion;
  await withinFence(promotion, believedKeys, async (client, k) => {
    await client.query(
      `insert into emend.undone (_id, target, told_at, actor, reason)
       select l._id, l.target, $2::timestamptz, coalesce($3, current_user), $4
       from emend.ledger_of_backfill($1) l
       where l.dismissed is null
       on conflict do nothing`,
      [
        backfill,
        k,
        request.actor,
        `backfill ${backfill} was reverted: ${request.reason ?? 'no reason given'}`,
      ],
    );
    await inWorkableOrder(client, targets, async ({ target }) => {
      await refoldAt(client, target, { rows: 's._backfill = $2', values: [backfill] }, k);
    });
    await client.query(`update emend.backfill set reverted_at = $2::timestamptz where name = $1`, [
      backfill,
      k,
    ]);
    await moveTo(client, backfill, 'reverted', request);
    await recordDone(client, request, 'reverted');
  });
}

/** The keys that rows of the backfill are recorded of, wherever they have come to: what supersedes one may be taken back meanwhile. */
function believedKeys(target: Target): string {
  const key = identList(target.key.map(({ name }) => name));
  const tables = [
    targetTable(target),
    ...(['history', 'shadow', 'tombstone'] as const).map((suffix) => ownObject(target, suffix)),
  ];
  return tables
    .map((table) => `select ${key} from ${table} where _backfill = $1`)
    .join('\n      union\n      ');
}
