import type { Pool } from 'pg';
import type { PromoteSpan } from '../config/promote-times.ts';
import { verdictOf } from '../db/sqlstate.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { check } from './check.ts';
import { describeKnownChecks, unknownChecks } from './check-names.ts';
import type { StatedChecks } from './check-result.ts';
import { acceptAsAsked } from './findings.ts';
import { promote } from './promote.ts';
import { readPromoteTime, spansOf } from './promote-time.ts';
import type { Promotion } from './promotion.ts';
import { stageIfComplete } from './stage-if-complete.ts';
import { readBackfill, refuseWish, writeWait } from './state.ts';
import type { Backfill, Wish } from './state.ts';

/**
 * Moves a backfill on as far as it goes by itself: sealed -> staged -> checked, and promoted where that was asked for. Each
 * step is kept when it is done, so that whoever comes after a crash goes on from there. The backfill's lock must be held.
 */
export async function advance(
  source: Pool,
  promotion: Promotion,
  spans: readonly PromoteSpan[],
): Promise<void> {
  for (let before: string | undefined; ;) {
    const backfill = await readBackfill(promotion.store, promotion.backfill);
    if (!backfill || backfill.state === before) return;
    before = backfill.state;
    if (backfill.state === 'sealed') await stageIfComplete(source, promotion, backfill);
    else if (backfill.state === 'staged') await check(promotion, backfill);
    else if (backfill.state === 'checked') await promoteIfAsked(promotion, backfill, spans);
    else return;
  }
}

async function promoteIfAsked(
  promotion: Promotion,
  backfill: Backfill,
  spans: readonly PromoteSpan[],
): Promise<void> {
  const { store } = promotion;
  const { name, wish } = backfill;
  if (!wish) return;
  await acceptAsAsked(store, name, wish.accept);
  try {
    requireKnown(backfill, wish);
    const begins = await mayBegin(store, backfill, wish, spans);
    if (begins) await promote(promotion, backfill, { ...wish, reason: begins.reason });
  } catch (error) {
    const isRefused = (isEmendError(error) && error.disposition === 'refuse') || verdictOf(error) === 'halve';
    if (!isRefused) throw error;
    // asked, and answered with no: to be asked again by whoever has looked at it
    const { message } = error as Error;
    await refuseWish(store, name, isEmendError(error) ? message : describeRefusal(name, message));
  }
}

/** A name that no check has is a mistake: what was meant to be accepted is not. Only here all names are known. */
function requireKnown({ name, checks }: Backfill, { accept }: Wish): void {
  const own = Object.keys((checks as StatedChecks).sql ?? {});
  const [unknown] = unknownChecks(Object.keys(accept), own);
  if (unknown === undefined) return;
  const known = describeKnownChecks(own);
  throw new EmendError(
    'backfill_refused',
    `backfill ${name} was not promoted: it was to accept ${unknown}, which is no check of it (known: ${known}); ask again`,
    { remedy: 'Promote it again, and accept a check by its name.' },
  );
}

/** @param said what the database said: `<target> refuses a row: …` */
function describeRefusal(name: string, said: string): string {
  return `backfill ${name} was not promoted: ${said}; mend the rule, or what it looks at, and promote again; or abandon the backfill, and load right rows into a new one`;
}

/**
 * Whether a promote begins now, and as what it is recorded; else what it waits for is written down.
 *
 * @throws EmendError `backfill_refused` where its time does not come
 */
export async function mayBegin(
  store: Pool,
  { name, targets }: Pick<Backfill, 'name' | 'targets'>,
  wish: Wish,
  spans: readonly PromoteSpan[],
): Promise<Pick<Wish, 'reason'> | undefined> {
  const configured = await readPromoteTime(store, spansOf(spans, targets), wish.at);
  if (configured.isNow) return wish;
  const asked = wish.ignoreWindow ? await readPromoteTime(store, [], wish.at) : configured;
  const { next, isNow, closedBy } = asked;
  if (isNow) return { reason: `${wish.reason ?? ''} (outside of ${configured.closedBy.join(', ')})` };
  if (next === null) throw neverOpens(name, closedBy);
  await writeWait(store, name, wish, { until: next, closedBy });
  return undefined;
}

/** A time that never comes: told when it is asked for, and again when it has passed meanwhile. */
export function neverOpens(name: string, closedBy: readonly string[]): EmendError {
  return new EmendError(
    'backfill_refused',
    `backfill ${name} is not promoted: ${closedBy.join(', ')} of the configuration leaves no time for it within 400 days`,
    {
      remedy: 'Widen the windows and restart the workers, or promote with --ignore-window --reason "…".',
    },
  );
}
