import { verdictOf } from '../db/sqlstate.ts';
import { isEmendError } from '../errors.ts';
import { check } from './check.ts';
import { readHeld } from './completeness.ts';
import { promote } from './promote.ts';
import type { Promotion } from './promotion.ts';
import { moveTo, readBackfill, refuseWish, writeProblem } from './state.ts';
import type { Backfill } from './state.ts';

/**
 * Moves a backfill on as far as it goes by itself: sealed -> staged -> checked, and promoted where that was asked for. Each
 * step is kept when it is done, so that whoever comes after a crash goes on from there. The backfill's lock must be held.
 */
export async function advance(promotion: Promotion): Promise<void> {
  for (let before: string | undefined; ;) {
    const backfill = await readBackfill(promotion.store, promotion.backfill);
    if (!backfill || backfill.state === before) return;
    before = backfill.state;
    if (backfill.state === 'sealed') await stageIfComplete(promotion, backfill);
    else if (backfill.state === 'staged') await check(promotion, backfill);
    else if (backfill.state === 'checked') await promoteIfAsked(promotion, backfill);
    else return;
  }
}

async function stageIfComplete({ store, targets }: Promotion, { name, sealed }: Backfill): Promise<void> {
  const missing: string[] = [];
  for (const { target } of targets) {
    const wanted = sealed?.[target.name] ?? { rows: 0, digest: '0' };
    const held = await readHeld(store, target, name);
    if (held.setAside > 0) {
      const problem = `${held.setAside} rows of ${target.name} are set aside: retry or discard them (emend dead list --target ${target.name})`;
      return writeProblem(store, name, problem);
    }
    if (held.rows < wanted.rows) missing.push(`${wanted.rows - held.rows} of ${target.name}`);
    else if (held.rows !== wanted.rows || held.digest !== wanted.digest) {
      const problem = `the store holds other rows of ${target.name} than were sealed: ${held.rows} rows with digest ${held.digest}, sealed were ${wanted.rows} with ${wanted.digest}; abandon it, and load a new one`;
      return writeProblem(store, name, problem);
    }
  }
  if (missing.length === 0) await moveTo(store, name, 'staged', undefined);
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
