/**
 * The sweep: compares the logs with the ledger and puts on the queue again what is missing.
 *
 * Role: everything between log and ledger may forget. A slot that was lost, a queue that was emptied, a store that was restored:
 * the rows are in the log, and the ledger does not have them.
 * Promise: a committed log row that is neither in the ledger nor set aside is on the queue again within seconds (law 5), as the
 * whole transaction that it was (law 7); a healthy system is left alone.
 * If it breaks: corrections are lost, and nobody is told.
 *
 * How: rows are compared once, in the order of transactions, up to the horizon below which every transaction has ended; up to
 * where all of them had their effect is kept as a mark in the store. The order of ids says nothing: they commit out of order.
 * The mark stands beside the ledger, in the same database: whatever is done to a store as a whole (a restore, a failover) leaves
 * a mark that its ledger bears out, because it was raised after the ledger had been read.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import type { Log } from '../change/ports.ts';
import { createErrorLog } from '../queue/error-log.ts';
import { readSuspicion } from '../store/diverged.ts';
import { createCompactor } from './compact.ts';
import { answerWish, readWish, takeLead, writeRound } from './marks.ts';
import { backlogJobs, createSweeper } from './sweeper.ts';
import type { RoundResult, SweeperOptions } from './sweeper.ts';
import { defaultTuning } from './tuning.ts';
import type { SweepTuning } from './tuning.ts';

export interface SweepOptions extends Omit<SweeperOptions, 'store' | 'tuning' | 'signal'> {
  readonly store: Pool;
  readonly log: Log;
  readonly tuning?: Partial<SweepTuning>;
}

export interface Sweep {
  stop(): Promise<void>;
}

/** Runs until it is stopped. One process leads a store; the others wait for their turn. */
export function startSweep(options: SweepOptions): Sweep {
  const { store, log } = options;
  const tuning = { ...defaultTuning, ...options.tuning };
  const stopping = new AbortController();
  const { signal } = stopping;
  const errors = createErrorLog(log, 'the sweep stands still and tries again', {});
  const pause = (ms: number): Promise<void> => sleep(ms, undefined, { signal }).catch(() => undefined);

  async function lead(): Promise<void> {
    const client = await store.connect();
    try {
      while (!signal.aborted && !(await takeLead(client))) await pause(tuning.standbyMs);
      if (!signal.aborted) await sweepOn(client);
    } finally {
      // ends the session, and with it the lead
      client.release(true);
    }
  }

  async function sweepOn(client: PoolClient): Promise<void> {
    const leader = createLeader({ ...options, store: client, tuning, signal }, log);
    const compactor = createCompactor(client, tuning);
    while (!signal.aborted) {
      await leader.tick();
      await compactor.tick();
      await pause(tuning.tickMs);
    }
  }

  const running = (async () => {
    while (!signal.aborted) {
      await lead().catch((error: unknown) => {
        if (!signal.aborted) errors.report(error);
      });
      await pause(tuning.standbyMs);
    }
  })();

  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

export interface Leader {
  /** Looks whether there is something to do, and does a round of it. */
  tick(): Promise<RoundResult | undefined>;
}

/** What the process that holds the lead does. */
export function createLeader(options: SweeperOptions, log: Log): Leader {
  const { store, queue, targets, tuning } = options;
  const sweeper = createSweeper(options);
  let isFirst = true;
  let dueAt = 0;
  let urgency: { epoch: string; askedAt: string | null } | undefined;
  /** The suspicion that was acted upon last. */
  let suspectedAt: string | null = null;
  /** What the present urgency has come to, over all of its rounds. */
  let sum = { compared: 0, enqueued: 0 };

  /** Something tells that jobs were lost, or might have been. */
  async function lookForUrgency(): Promise<void> {
    const epoch = await queue.epoch();
    const wish = await readWish(store);
    if (wish.epoch === epoch && wish.askedAt === null) return;
    if (urgency?.epoch === epoch) return;
    // no sweep of this store has come to its end: what waits on the queue is no sign of a loss, and would be there twice
    const isFirstEver = wish.epoch === null && wish.askedAt === null;
    if (isFirstEver && (await queue.counts()).waiting > backlogJobs) return;
    if (wish.epoch !== null && wish.epoch !== epoch)
      log.warn({}, 'the queue was emptied or exchanged: what it held is enqueued again');
    if (wish.all) sweeper.startOver();
    sweeper.forgetSent();
    sum = { compared: 0, enqueued: 0 };
    urgency = { epoch, askedAt: wish.askedAt };
  }

  /** A merge has met a number that was given out twice: the source lost rows, which of them is not known yet. */
  async function lookForSuspicion(): Promise<void> {
    const at = await readSuspicion(store, targets);
    if (at === null || at === suspectedAt) return;
    log.warn({}, 'the source gives out numbers of rows that are merged: see emend diverged list');
    suspectedAt = at;
    sweeper.startOver();
    dueAt = 0;
  }

  return {
    async tick() {
      await lookForUrgency();
      await lookForSuspicion();
      if (!urgency && performance.now() < dueAt) return undefined;
      const isUrgent = urgency !== undefined;
      const round = await sweeper.round({ atOnce: isUrgent || isFirst, isUrgent });
      isFirst = false;
      dueAt =
        performance.now() + (round.goesOn ? 0 : round.isBacklog ? tuning.backlogRoundMs : tuning.roundMs);
      sum = isUrgent
        ? { compared: sum.compared + round.compared, enqueued: sum.enqueued + round.enqueued }
        : { compared: round.compared, enqueued: round.enqueued };
      await writeRound(store, { ...round, ...sum }, targets);
      if (round.enqueued > 0)
        log.info(
          { rows: round.enqueued, missing: round.missing },
          'rows that were missing in the store are on the queue again',
        );
      if (urgency && round.isComplete) {
        await answerWish(store, urgency);
        urgency = undefined;
      }
      return round;
    },
  };
}
