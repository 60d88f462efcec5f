/**
 * Backfills in the store: what workers do with the requests of `corrections._request`.
 *
 * Role: stages the rows of a backfill, checks them when they are complete, promotes, reverts or abandons it when asked.
 * Promise: nobody sees a row of a backfill before it is promoted, and then all of them at once, in all of its targets; what was
 * sealed is what is promoted, row for row; every step can be killed and is gone on with.
 * If it breaks: half a backfill on a dashboard, or one that cannot be taken back.
 *
 * A request may come twice, late, or out of order: each is carried out once (`emend.backfill_request`), and what it leads to
 * depends on the state that the store has reached, not on the order in which requests came.
 */
import type { Pool } from 'pg';
import type { PromoteSpan } from '../config/promote-times.ts';
import { verdictOf } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import { abandon } from './abandon.ts';
import { advance } from './advance.ts';
import { withBackfillLock } from './backfill-lock.ts';
import type { BackfillTarget, Promotion } from './promotion.ts';
import { isDone, recordDone, untilVisible } from './request.ts';
import type { Request } from './request.ts';
import { revert } from './revert.ts';
import { stageFromLog } from './stage-copy.ts';
import { moveTo, readBackfill, takeOver, writeProblem, writeWish } from './state.ts';
import type { Backfill } from './state.ts';

export interface BackfillWork {
  /** Sessions with the pinned settings. */
  readonly source: Pool;
  /** Sessions with `mergeSettings`. */
  readonly store: Pool;
  /** When promotes may begin; left out: at any time. */
  readonly promoteTimes?: readonly PromoteSpan[];
  /** Targets as they are now. */
  readonly resolve: (names: readonly string[]) => Promise<BackfillTarget[]>;
}

/** @throws EmendError or a Postgres error when it is to be tried again; nothing is half-made */
export async function carryOut(work: BackfillWork, request: Request): Promise<void> {
  const { source, store } = work;
  if (request.backfill === null) return recordDone(store, request, 'not of a backfill');
  await untilVisible(source, request.id);
  const backfill = await takeOver(source, store, request.backfill);
  if (backfill === null) return recordDone(store, request, 'an import');
  const targets = await work.resolve(backfill.targets);
  if (request.request === 'chunk') {
    if (!(await isDone(store, request))) await stageChunk(work, backfill, targets, request);
    if (!(await mayBeComplete(store, backfill.name))) return;
  }
  await withBackfillLock(store, backfill.name, async () => {
    if (!(await isDone(store, request))) await answer(work, backfill, targets, request);
    await advance(source, { store, backfill: backfill.name, targets }, work.promoteTimes ?? []);
  });
}

/** The details of its request. */
interface Chunk extends Record<'target' | 'first' | 'last', string> {
  readonly rows: number;
}

async function stageChunk(
  { source, store }: BackfillWork,
  { name }: Backfill,
  targets: readonly BackfillTarget[],
  request: Request,
): Promise<void> {
  const { target: targetName, first, last, rows } = request.details as unknown as Chunk;
  const target = targets.find((part) => part.target.name === targetName)?.target;
  if (!target) return recordDone(store, request, `${targetName} is no target of the backfill`);
  const isAbandoned = (await readBackfill(store, name))?.state === 'abandoned';
  if (!isAbandoned) await stageFromLog({ source, store }, { backfill: name, target, first, last, rows });
  await recordDone(store, request, isAbandoned ? 'abandoned before' : 'staged');
}

/** Whether it is worth counting: all that was sealed came in chunks that are done, as far as their requests say. */
async function mayBeComplete(store: Pool, name: string): Promise<boolean> {
  const { rows } = await store.query<{ complete: string }>(
    `select (b.state = 'sealed' and (
         select coalesce(sum((r.details ->> 'rows')::bigint), 0)
         from emend.backfill_request r
         where r.backfill = b.name and r.request = 'chunk'
       ) >= (select coalesce(sum((s.value ->> 'rows')::bigint), 0) from jsonb_each(b.sealed) as s))::text as complete
     from emend.backfill b
     where b.name = $1`,
    [name],
  );
  return rows[0]?.complete === 'true';
}

async function answer(
  work: BackfillWork,
  { name }: Backfill,
  targets: readonly BackfillTarget[],
  request: Request,
): Promise<void> {
  const { source, store } = work;
  const throwAway = (outcome?: string): Promise<void> =>
    abandon(
      { source, store },
      name,
      targets.map(({ target }) => target),
      request,
      outcome,
    );
  // under the lock: the state may have moved since
  const { state } = (await readBackfill(store, name))!;
  const isEnded = state === 'promoted' || state === 'reverted' || state === 'abandoned';
  switch (request.request) {
    case 'seal':
      if (state === 'open') await moveTo(store, name, 'sealed', request);
      return recordDone(store, request, 'sealed');
    case 'promote':
      if (isEnded) return recordDone(store, request, `nothing to promote: it is ${state}`);
      await writeWish(store, name, {
        request: request.id,
        actor: request.actor,
        reason: request.reason,
        accept: (request.details['accept'] ?? {}) as Record<string, string>,
        at: (request.details['at'] ?? null) as string | null,
        ignoreWindow: request.details['ignore_window'] === true,
      });
      return recordDone(store, request, 'asked');
    case 'revert':
      if (state === 'promoted') return revertOrSay({ store, backfill: name, targets }, request);
      if (isEnded) return recordDone(store, request, `nothing to revert: it is ${state}`);
      // the promote was refused, or comes after this one; the source takes no further request, so it can never be promoted
      return throwAway('nothing to revert: it was not promoted; it is abandoned');
    case 'abandon':
      if (isEnded) return recordDone(store, request, `nothing to abandon: it is ${state}`);
      return throwAway();
    default:
      throw new EmendError('batch_invalid', `backfill ${name}: there is no request ${request.request}`, {
        remedy: 'Let reader and workers run the same version of emend.',
      });
  }
}

/** What the table says to it, such as a foreign key of a row that came since, stands as its problem while it is tried again. */
async function revertOrSay(promotion: Promotion, request: Request): Promise<void> {
  try {
    await revert(promotion, request);
  } catch (error) {
    if (verdictOf(error) === 'halve') {
      // the message names constraint and table; the detail, which holds values, stays out of it
      const why = `it is not reverted: ${(error as Error).message}`;
      await writeProblem(
        promotion.store,
        promotion.backfill,
        `${why}; it is tried again until that is mended`,
      );
    }
    throw error;
  }
}
