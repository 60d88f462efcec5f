/**
 * Asking the source for something of a backfill, or loading into it, while another session may hold its row, or the input: one that
 * loads, or one that asked before and did not end its transaction.
 *
 * Promise: who waits is told for whom, and waits no longer than was said.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import { sqlState } from '../db/sqlstate.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { asRefusal } from '../log/backfill-refusal.ts';

export interface LockWaitOptions {
  /** Default: ten minutes. */
  readonly timeoutMs?: number | undefined;
  /** Told once, after some seconds: who holds it. */
  readonly onBlocked?: ((holder: string) => void) | undefined;
}

export const tenMinutesMs = 600_000;
const toldAfterMs = 3_000;

/**
 * `ask` in a transaction of its own.
 *
 * @param source with a second session, which looks who is waited for
 * @throws EmendError `timed_out` when the row stays locked: nothing was asked for; `backfill_refused` for what the source refuses
 */
export async function askPatiently<T>(
  source: Pool,
  name: string,
  { timeoutMs = tenMinutesMs, onBlocked }: LockWaitOptions,
  ask: (tx: PoolClient) => Promise<T>,
): Promise<T> {
  let holder: string | null = null;
  return withTransaction(source, async (tx) => {
    const { rows } = await tx.query<{ pid: string }>(
      `select pg_backend_pid()::text as pid, set_config('lock_timeout', $1, true)`,
      [`${Math.max(1, Math.round(timeoutMs))}ms`],
    );
    const ended = new AbortController();
    const watch = watchFor(
      source,
      () => [rows[0]!.pid],
      Math.min(toldAfterMs, timeoutMs / 2),
      ended.signal,
      (found) => {
        holder = found;
        onBlocked?.(`waits for ${found}, which holds the backfill in the source`);
      },
    );
    try {
      return await ask(tx);
    } finally {
      ended.abort();
      await watch;
    }
  }).catch((error: unknown) => {
    throw sqlState(error) === '55P03' ? stayedLocked(name, holder, error) : asRefusal(error);
  });
}

/** `body` loads by sessions of `source`; one that is kept waiting for some seconds is told of, once. */
export async function tellIfBlocked<T>(
  source: Pool,
  onBlocked: LockWaitOptions['onBlocked'],
  body: () => Promise<T>,
): Promise<T> {
  if (!onBlocked) return body();
  const pids = new Set<string>();
  // pg has the number of its session, its types do not
  const note = (client: PoolClient): unknown =>
    pids.add(String((client as PoolClient & { processID: number }).processID));
  source.on('acquire', note);
  const ended = new AbortController();
  const watch = watchFor(
    source,
    () => [...pids],
    loadToldAfterMs,
    ended.signal,
    (found) => onBlocked(`waits for ${found}, which holds the backfill, or this input of it, in the source`),
  );
  try {
    return await body();
  } finally {
    ended.abort();
    await watch;
    source.off('acquire', note);
  }
}

const loadToldAfterMs = 5_000;

/** Tells once who keeps the sessions waiting. That it cannot be found out stops nobody from waiting. */
async function watchFor(
  source: Pool,
  pids: () => readonly string[],
  everyMs: number,
  ended: AbortSignal,
  tell: (holder: string) => void,
): Promise<void> {
  try {
    for (let holder: string | undefined; holder === undefined;) {
      await sleep(everyMs, undefined, { signal: ended });
      holder = await readHolder(source, pids());
      if (holder !== undefined) tell(holder);
    }
  } catch {
    // the wait is over, or the source is away, which whoever asks is told
  }
}

async function readHolder(source: Pool, pids: readonly string[]): Promise<string | undefined> {
  const { rows } = await source.query<{ holder: string }>(
    `select format('session %s%s', b.pid, ' (' || nullif(a.application_name, '') || ')') as holder
     from unnest($1::int[]) as waiting (pid)
     cross join lateral unnest(pg_blocking_pids(waiting.pid)) as b (pid)
     left join pg_stat_activity a on a.pid = b.pid
     limit 1`,
    [pids],
  );
  return rows[0]?.holder;
}

function stayedLocked(name: string, holder: string | null, cause: unknown): EmendError {
  return new EmendError(
    'timed_out',
    `backfill ${name}: ${holder ?? 'another session'} holds it in the source; nothing was asked for`,
    {
      remedy:
        'Ask again once that transaction has ended; one that was left open is ended with select pg_terminate_backend(<session>) in the source.',
      cause,
    },
  );
}
