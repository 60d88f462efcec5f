/**
 * Transaction time. K, the time at which the store came to believe something, is taken by each merge for itself; no row
 * that all merges would have to lock is on the write path.
 *
 * Promise: K is strictly increasing per key, and greater than every time that `emend.settled()` has shown, so an answer
 * about a settled time never changes (law 4), whatever the machine's clock does.
 *
 * How: a merge announces K0 (the clock after its locks are held) by a shared advisory lock, and takes K in a later statement,
 * above the horizon. The ticker first commits a raised horizon, then, in a later statement, moves `settled` below the horizon
 * and below every announced K0. A merge that took no K yet will see the new horizon; one that has is seen in pg_locks.
 */
import type { ClientBase, Pool } from 'pg';
import type { Log } from '../change/ports.ts';

/** Announced K0s have this in the highest byte of their lock key, to be told from other users of advisory locks. */
const announcement = 69n << 56n; // 'E'

/** SQL: the K0 that this transaction has announced. */
const announcedK0 = `current_setting('emend.k0')::timestamptz`;

/**
 * SQL: the K that this transaction has taken. Both are the transaction's own: outside of one, as after a `begin` that failed and
 * statements that were sent behind it, there is none, and a merge fails before it writes.
 */
export const takenK = `current_setting('emend.k')::timestamptz`;

/**
 * Announces K0. Call it once the locks of all keys are held, and before the statement that takes K.
 *
 * It is the first statement under the locks, so it also looks which targets have fenced keys (`merge/fence.ts`), and returns them.
 */
export async function announceK0(client: ClientBase): Promise<readonly string[]> {
  const { rows } = await client.query<{ fenced: string | null }>({
    name: 'emend announce k0',
    text: `
      with clock as materialized (select clock_timestamp() as now)
      select set_config('emend.k0', now::text, true), pg_advisory_xact_lock_shared(${announcement} + (extract(epoch from now) * 1000000)::bigint),
        (select string_agg(distinct f.target, ',') from emend.fence_of f) as fenced
      from clock`,
  });
  return rows[0]!.fenced?.split(',') ?? [];
}

/**
 * Takes K and returns it, as text, in a statement after the one that announced K0: above K0, above the horizon, and above every K that
 * is visible under the locks. It is one for all targets of a transaction: what becomes visible together is told at one time, or a
 * question about the time between two would be answered with half of it (law 7).
 */
export async function takeK(client: ClientBase): Promise<string> {
  const { rows } = await client.query<{ k: string }>({
    name: 'emend take k',
    text: `
      select set_config('emend.k', greatest(
        ${announcedK0},
        (select c.horizon + interval '1 microsecond' from emend.clock c where c.only_one),
        (select max(m.told_at) + interval '1 microsecond' from emend.merge m))::text, true) as k`,
  });
  return rows[0]!.k;
}

export interface Clock {
  stop(): Promise<void>;
}

/** How often `settled` moves. It lags the present by about this much, and by the longest running merge. */
const tickMs = 50;

/** A session lock: one ticker a store; the others wait for their turn. */
const tickerLock = (69n << 56n) + 1n;

/**
 * Starts the ticker: it takes the ticker's lock when it is free, then moves the clock until it is stopped.
 * A lost connection gives the lock back by itself; this ticker, or another process's, goes on.
 */
export function startClock(pool: Pool, log: Log): Clock {
  let stopping = false;
  let wake = (): void => {};
  const sleep = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function lead(): Promise<void> {
    const client = await pool.connect();
    try {
      while (!stopping && !(await takeLead(client))) await sleep(tickMs * 10);
      if (!stopping && (await recordRestore(client)))
        log.warn({}, 'the store runs on another server or timeline than before: see emend.clock_gap');
      while (!stopping) {
        await tick(client);
        await sleep(tickMs);
      }
    } finally {
      // ends the session, and with it the lock
      client.release(true);
    }
  }

  const running = (async () => {
    while (!stopping) {
      await lead().catch((error: unknown) =>
        log.warn({ err: error }, 'the clock of the store stands still; trying again'),
      );
      if (!stopping) await sleep(1000);
    }
  })();

  return {
    stop: async () => {
      stopping = true;
      wake();
      await running;
    },
  };
}

async function takeLead(client: ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ taken: string }>(
    `select case when pg_try_advisory_lock(${tickerLock}) then 'yes' else 'no' end as taken`,
  );
  return rows[0]?.taken === 'yes';
}

/**
 * On another server, or another timeline of it, the store may be an older state of itself, and answers that were given about
 * the time since are lost. That time is recorded before the clock goes on, and refused as a time of belief (law 4).
 */
export async function recordRestore(client: ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ recorded: string }>(
    `with now as materialized (
       select system.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as server
       from pg_control_system() as system
     ),
     gap as (
       insert into emend.clock_gap (after, until, reason)
       select c.settled, clock_timestamp(), 'server ' || c.server || ' before, ' || now.server || ' now'
       from emend.clock c cross join now
       where c.server <> now.server
       returning 1
     ),
     seen as (
       update emend.clock c set server = now.server from now where c.server is distinct from now.server
     )
     select (select count(*) from gap)::text as recorded`,
  );
  return rows[0]!.recorded !== '0';
}

/** One step of the clock, in two commits. Exported for tests and for commands that run without a worker. */
export async function tick(client: ClientBase): Promise<void> {
  await client.query(`update emend.clock set horizon = greatest(horizon, clock_timestamp())`);
  // A statement of its own: it must see the locks as they are after the horizon was committed.
  await client.query(
    `update emend.clock set settled = greatest(settled, least(horizon, announced.k0) - interval '1 microsecond')
     from (
       select timestamptz 'epoch' + min((l.classid::bigint << 32 | l.objid::bigint) - ${announcement}) * interval '1 microsecond' as k0
       from pg_locks l
       where l.locktype = 'advisory' and l.objsubid = 1 and l.mode = 'ShareLock'
         and l.database = (select d.oid from pg_database d where d.datname = current_database())
         and l.classid::bigint >> 24 = 69
     ) as announced`,
  );
}
