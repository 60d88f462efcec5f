import type { Pool } from 'pg';
import { verdictOf } from '../db/sqlstate.ts';
import { isEmendError } from '../errors.ts';
import { check } from './check.ts';
import { promote } from './promote.ts';
import type { Promotion } from './promotion.ts';
import { stageIfComplete } from './stage-if-complete.ts';
import { readBackfill, refuseWish } from './state.ts';
import type { Backfill } from './state.ts';

/**
 * Moves a backfill on as far as it goes by itself: sealed -> staged -> checked, and promoted where that was asked for. Each
 * step is kept when it is done, so that whoever comes after a crash goes on from there. The backfill's lock must be held.
 */
export async function advance(source: Pool, promotion: Promotion): Promise<void> {
  for (let before: string | undefined; ;) {
    const backfill = await readBackfill(promotion.store, promotion.backfill);
    if (!backfill || backfill.state === before) return;
    before = backfill.state;
    if (backfill.state === 'sealed') await stageIfComplete(source, promotion, backfill);
    else if (backfill.state === 'staged') await check(promotion, backfill);
    else if (backfill.state === 'checked') await promoteIfAsked(promotion, backfill);
    else return;
  }
}

async function promoteIfAsked(promotion: Promotion, backfill: Backfill): Promise<void> {
  const { store } = promotion;
  const { name, wish } = backfill;
  if (!wish || !(await isDue(promotion, wish.at))) return;
  try {
    await promote(promotion, backfill, wish);
  } catch (error) {
    const isRefused = (isEmendError(error) && error.disposition === 'refuse') || verdictOf(error) === 'halve';
    if (!isRefused) throw error;
    // asked, and answered with no: to be asked again by whoever has looked at it
    await refuseWish(store, name, (error as Error).message);
  }
}

async function isDue({ store }: Promotion, at: string | null): Promise<boolean> {
  const { rows } = await store.query<{ due: string }>(
    `select coalesce($1::timestamptz <= clock_timestamp(), true)::text as due`,
    [at],
  );
  return rows[0]?.due === 'true';
}
