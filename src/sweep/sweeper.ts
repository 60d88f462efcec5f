import type { ClientBase, Pool } from 'pg';
import type { Queue } from '../queue/queue.ts';
import { compareArchives } from './archives.ts';
import { compareNumbers, hasSameTail } from './diverged.ts';
import { enqueueRows } from './enqueue.ts';
import { createHorizons } from './horizons.ts';
import { readLastIds, readSourceNow } from './log-pages.ts';
import type { SourceNow } from './log-pages.ts';
import { isOfSource, readMarks, writeMarks } from './marks.ts';
import type { Mark, Round } from './marks.ts';
import { isMerged, stillWithoutEffect, withoutEffectOf } from './missing.ts';
import type { MissingRow } from './missing.ts';
import type { SweepTuning } from './tuning.ts';
import { createFirstWalk, createMainWalk } from './walk.ts';
import type { MainWalk, Walk } from './walk.ts';

export interface SweeperOptions {
  readonly source: Pool;
  /** The session that holds the lead: without it nothing is written. */
  readonly store: ClientBase;
  readonly queue: Pick<Queue, 'publish' | 'counts' | 'epoch'>;
  readonly targets: readonly string[];
  readonly atomicRows: number;
  readonly atomicBytes: number;
  readonly tuning: SweepTuning;
  readonly signal: AbortSignal;
}

export interface RoundOptions {
  /** Rows that committed just now count too, instead of being left to the stream. */
  readonly atOnce: boolean;
  /** Jobs were lost: enqueue all that is missing, whatever else the queue holds. */
  readonly isUrgent: boolean;
}

export interface RoundResult extends Round {
  /** Everything below the horizon has been compared, and what is missing is on the queue. */
  readonly isComplete: boolean;
  /** There is more to do now. */
  readonly goesOn: boolean;
  /** What is missing waits on the queue, as far as one can tell: to look again soon would only take the workers' time. */
  readonly isBacklog: boolean;
}

export interface Sweeper {
  round(options: RoundOptions): Promise<RoundResult>;
  /** Takes nothing that was put on the queue for still being there. */
  forgetSent(): void;
  /** Compares the logs from their beginning again, first their numbers and then whether each row had its effect. */
  startOver(): void;
}

/** Jobs that wait while workers keep up: more are a backlog. */
export const backlogJobs = 8;

/** What one leader knows. It is built from the store's marks, so that another one can go on at any time. */
interface Known {
  readonly source: string;
  readonly startedAt: string;
  marks: readonly Mark[];
  readonly first: Walk;
  readonly main: MainWalk;
}

export function createSweeper(options: SweeperOptions): Sweeper {
  const { source, store, queue, targets, tuning, signal } = options;
  /** More than one transaction that comes back as a whole. */
  const maxMissing = Math.max(tuning.maxMissing, 2 * options.atomicRows);
  let horizons = createHorizons();
  let known: Known | undefined;
  let missing: MissingRow[] = [];
  let ignoreMarks = false;

  /**
   * Marks say nothing about another source, nor when the log lacks what was merged last. Such a source may have lost rows, and
   * given their numbers out again: that is looked for before a mark says that a row had its effect.
   */
  async function begin(now: SourceNow): Promise<Known> {
    const stored = await readMarks(store, targets);
    const isOther = !stored.every((mark) => isOfSource(mark, now));
    const isSuspect = ignoreMarks || isOther || !(await hasSameTail({ source, store, targets }));
    if (isSuspect) await compareNumbers({ source, store, targets }, signal);
    await compareArchives({ source, store, targets }, isSuspect);
    const valid = isSuspect ? [] : stored;
    const fresh = targets.filter((target) => !valid.some((mark) => mark.target === target));
    // after the horizon was read: what is below it is among these
    const lastIds = fresh.length === 0 ? new Map<string, bigint>() : await readLastIds(source, fresh);
    const marks = [
      ...valid,
      ...fresh.map((target) => ({
        target,
        source: now.identity,
        belowXid: now.horizon,
        idsUpTo: lastIds.get(target) ?? null,
      })),
    ];
    if (fresh.length > 0) await writeMarks(store, marks);
    ignoreMarks = false;
    missing = [];
    horizons = createHorizons();
    return {
      source: now.identity,
      startedAt: now.startedAt,
      marks,
      first: createFirstWalk(marks),
      main: createMainWalk(marks),
    };
  }

  /** Compares on, up to a number of pages, as long as there is room to remember what is missing. */
  async function compare(walk: Walk, isEarly: boolean): Promise<number> {
    let compared = 0;
    // until rows are met that wait: behind them most do
    let isHealthy = true;
    for (let page = 0; page < tuning.pagesPerRound && missing.length < maxMissing; page += 1) {
      if (walk.isAtEnd || signal.aborted) break;
      const whole = isHealthy ? await walk.digest(source, tuning.pageRows) : null;
      if (whole && (await isMerged(store, targets, whole))) {
        walk.passOver(whole, tuning.pageRows);
        compared += whole.rows;
        continue;
      }
      isHealthy = false;
      const rows = await walk.next(source, tuning.pageRows);
      compared += rows.length;
      const noticedAt = performance.now();
      for (const { target, xid, id, nonce } of await withoutEffectOf(store, rows))
        missing.push({ target, xid, id, nonce, isEarly, noticedAt, sentAt: undefined, bytes: 0 });
    }
    return compared;
  }

  function candidates({ first, main }: Known, isUrgent: boolean, queueIsEmpty: boolean): MissingRow[] {
    const walk = first.isAtEnd ? main : first;
    // the rest of the transaction in which the walk stands is still to come, unless it is cut anyway (law 7)
    const isOpen = (row: MissingRow): boolean =>
      !walk.isAtEnd && row.xid === walk.xid && row.isEarly === (walk === first);
    const isCut = missing.filter(isOpen).length > options.atomicRows;
    const whole = isCut ? missing : missing.filter((row) => !isOpen(row));
    if (isUrgent) return whole.filter((row) => row.sentAt === undefined);
    // no job is left that could bring a row, not even one of the sweep's own
    if (queueIsEmpty) return whole;
    // most likely they are among the jobs that wait; now and then the oldest are tried, in case they are not
    const now = performance.now();
    const isOld = (at: number | undefined): boolean => at === undefined || now - at > tuning.patienceMs;
    return whole.filter((row) => isOld(row.noticedAt) && isOld(row.sentAt)).slice(0, options.atomicRows);
  }

  async function enqueue(rows: readonly MissingRow[]): Promise<number> {
    const bytesOnTheWay = missing.reduce(
      (sum, { sentAt, bytes }) => sum + (sentAt === undefined ? 0 : bytes),
      0,
    );
    if (rows.length === 0 || bytesOnTheWay >= tuning.maxBytes) return 0;
    return enqueueRows({ ...options, publish: queue.publish }, rows, tuning.maxBytes - bytesOnTheWay);
  }

  async function raiseMarks(at: Known): Promise<bigint> {
    const late = missing.filter((row) => !row.isEarly);
    const below = late.reduce((least, { xid }) => (xid < least ? xid : least), at.main.xid);
    const firstIsDone = at.first.isAtEnd && late.length === missing.length;
    const marks = at.marks.map((mark) => ({
      ...mark,
      belowXid: below > mark.belowXid ? below : mark.belowXid,
      idsUpTo: firstIsDone ? null : mark.idsUpTo,
    }));
    const isNews = marks.some(
      (mark, place) =>
        mark.belowXid !== at.marks[place]!.belowXid || mark.idsUpTo !== at.marks[place]!.idsUpTo,
    );
    if (isNews) await writeMarks(store, marks);
    at.marks = marks;
    return firstIsDone ? below : 0n;
  }

  async function round({ atOnce, isUrgent }: RoundOptions): Promise<RoundResult> {
    const startedAt = performance.now();
    // in this order: an empty queue, then the effect of all that was in it; the horizon, then the rows below it
    const counts = await queue.counts();
    const queueIsEmpty = !isUrgent && isEmpty(counts);
    const now = await readSourceNow(source);
    const isSame = known?.source === now.identity && known.startedAt === now.startedAt;
    const wentBack = known?.marks.some((mark) => mark.belowXid > now.horizon) === true;
    if (ignoreMarks || !isSame || wentBack) known = await begin(now);
    const at = known!;
    horizons.add(now, performance.now());
    const before = missing.length;
    // what is put on the queue for want of any job has to be missing indeed
    missing = await (queueIsEmpty ? withoutEffectOf : stillWithoutEffect)(store, missing);
    const settled = before - missing.length;
    const horizon = atOnce ? now.horizon : horizons.asOf(performance.now() - tuning.graceMs);
    if (horizon !== undefined) at.main.extendTo(horizon);
    let compared = await compare(at.first, true);
    if (at.first.isAtEnd) compared += await compare(at.main, false);
    const enqueued = await enqueue(candidates(at, isUrgent, queueIsEmpty));
    const completeAt = horizons.completeAt(await raiseMarks(at));
    const isAtEnd = at.first.isAtEnd && at.main.isAtEnd;
    const isBacklog = !isUrgent && counts.waiting > backlogJobs && !isMostlySent(missing);
    return {
      tookMs: performance.now() - startedAt,
      compared,
      missing: missing.length,
      enqueued,
      completeMs: completeAt === undefined ? null : performance.now() - completeAt,
      isComplete: isAtEnd && missing.every((row) => row.sentAt !== undefined),
      goesOn: !isBacklog && (enqueued > 0 || settled > 0 || (!isAtEnd && missing.length < maxMissing)),
      isBacklog,
    };
  }

  return {
    round,
    forgetSent() {
      for (const row of missing) row.sentAt = undefined;
    },
    startOver() {
      ignoreMarks = true;
    },
  };
}

/** Then it is the sweep's own rows that workers are busy with, and it goes on as they do. */
function isMostlySent(missing: readonly MissingRow[]): boolean {
  const sent = missing.filter(({ sentAt }) => sentAt !== undefined).length;
  return sent > missing.length / 2;
}

function isEmpty({
  waiting,
  active,
  delayed,
}: {
  waiting: number;
  active: number;
  delayed: number;
}): boolean {
  return waiting + active + delayed === 0;
}
