import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import {
  countAllSetAside,
  countSetAside,
  missingRows,
  notInStore,
  rowsOfTransaction,
  transactionStatus,
} from './awaited-rows.ts';
import type { AwaitedRow } from './awaited-rows.ts';
import { withServers } from './connections.ts';
import { requireInstall } from './install.ts';
import { readHolder } from './sweep-status.ts';

export interface WaitOptions {
  readonly config: ResolvedConfig;
  /** Wait for the rows of this transaction of the source only (`pg_current_xact_id()`). */
  readonly xid?: string | undefined;
  readonly timeoutMs?: number | undefined;
}

export interface Waited {
  /** Rows that had no effect yet when the wait began (with `xid`: all rows of the transaction). */
  readonly rows: number;
  /** How many of them were set aside instead of merged, or have a number that the store has of another row (`diverged`). */
  readonly setAside: number;
  /** Rows of all targets that are set aside now, also those that were before the wait began: they are not in the store. */
  readonly setAsideNow: number;
  readonly waitedMs: number;
}

/**
 * Read your own write: returns once every row that was committed in the logs before the call is merged or set aside.
 * A transaction that is still open elsewhere is not waited for.
 *
 * @throws EmendError `timed_out`
 */
export async function waitUntilMerged({ config, xid, timeoutMs }: WaitOptions): Promise<Waited> {
  const startedAt = performance.now();
  const deadline = startedAt + (timeoutMs ?? Infinity);
  return withServers(config, { role: 'wait', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    const targets = config.targets.map((target) => target.name);
    const awaited = await findAwaited(source, store, targets, xid, deadline).catch((error: unknown) => {
      throw sqlState(error) === '42P01' ? logMissing(error) : error;
    });
    await untilInStore(store, awaited, deadline).catch(async (error: unknown) => {
      throw isTimedOut(error) ? await withHolder(source, error) : error;
    });
    return {
      rows: awaited.length,
      setAside: awaited.length === 0 ? 0 : await countSetAside(store, awaited),
      setAsideNow: await countAllSetAside(store, targets),
      waitedMs: Math.round(performance.now() - startedAt),
    };
  });
}

function findAwaited(
  source: Pool,
  store: Pool,
  targets: readonly string[],
  xid: string | undefined,
  deadline: number,
): Promise<AwaitedRow[]> {
  if (xid === undefined) return missingRows(source, store, targets);
  return rowsOfCommitted(source, targets, xid, deadline);
}

function logMissing(cause: unknown): EmendError {
  return new EmendError('not_migrated', `source.url: ${(cause as Error).message}`, {
    remedy: 'Run emend migrate, which makes the log of every target.',
    cause,
  });
}

/** Ids asked for at a time: the later ones need no question while an earlier one is missing. */
const pageSize = 10_000;

async function untilInStore(store: Pool, awaited: readonly AwaitedRow[], deadline: number): Promise<void> {
  for (let start = 0; start < awaited.length; start += pageSize) {
    let left = awaited.slice(start, start + pageSize);
    await poll(deadline, async () => {
      left = await notInStore(store, left);
      return left.length === 0;
    }).catch((error: unknown) => {
      if (!(error instanceof TimeUp)) throw error;
      throw timedOut(left.length + Math.max(0, awaited.length - start - pageSize), left[0]!.id);
    });
  }
}

async function rowsOfCommitted(
  source: Pool,
  targets: readonly string[],
  xid: string,
  deadline: number,
): Promise<AwaitedRow[]> {
  let status: string | null = null;
  try {
    await poll(deadline, async () => {
      status = await transactionStatus(source, xid);
      return status !== 'in progress';
    });
  } catch (error) {
    if (error instanceof TimeUp) {
      throw new EmendError('timed_out', `transaction ${xid} of the source has not ended yet`, {
        remedy: 'Commit it first, then wait.',
      });
    }
    if (!(sqlState(error) ?? '').startsWith('22')) throw error;
    throw new EmendError('bad_arguments', `${xid} is not a transaction of the source`, {
      remedy: 'Give what select pg_current_xact_id() returned inside the transaction.',
      cause: error,
    });
  }
  if (status !== 'aborted') return rowsOfTransaction(source, targets, xid);
  throw new EmendError('bad_arguments', `transaction ${xid} of the source was rolled back`, {
    remedy: 'Nothing of it will be merged; write it again.',
  });
}

class TimeUp extends Error {}

const firstPauseMs = 2;
const longestPauseMs = 250;

async function poll(deadline: number, isDone: () => Promise<boolean>): Promise<void> {
  for (let pauseMs = firstPauseMs; !(await isDone()); pauseMs = Math.min(pauseMs * 1.5, longestPauseMs)) {
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) throw new TimeUp();
    await sleep(Math.min(pauseMs, leftMs));
  }
}

function isTimedOut(error: unknown): error is EmendError {
  return isEmendError(error) && error.code === 'timed_out';
}

/** A transaction that is open for so long is worth naming. */
const heldMs = 5_000;

/** What the queue lost cannot be found beneath a transaction that is open: then it is what is waited for. */
async function withHolder(source: Pool, error: EmendError): Promise<EmendError> {
  const holder = await readHolder(source);
  if (!holder || holder.forMs < heldMs) return error;
  return new EmendError('timed_out', error.message, {
    remedy: `${error.remedy} ${holder.who} has not ended its transaction for ${Math.round(holder.forMs / 1_000)} s: what the queue lost is not found before it ends.`,
  });
}

function timedOut(rows: number, firstId: string): EmendError {
  return new EmendError(
    'timed_out',
    `${countOf(rows, 'row is', 'rows are')} not merged yet, the first has _id ${firstId}`,
    {
      remedy: 'See emend status: is a reader and a worker running, and does the queue drain?',
    },
  );
}
