import pg from 'pg';
import { lockClass } from '../../src/store/lock-class.ts';
import { eventually } from '../support/eventually.ts';
import { query } from '../support/query.ts';
import type { Fault } from './program.ts';
import type { Bench } from './run-program.ts';

const lookForMergeMs = 1_000;
/** A backfill is written first, and is at each step for a moment only. */
const lookForBackfillMs = 6_000;
/** The class of the locks under which backfills are moved. */
const lockClassOfBackfills = 0x656e0000;

/** Ends when the fault is over: what was killed runs again, or is about to be started by its supervisor. */
export async function applyFault(bench: Bench, fault: Fault): Promise<void> {
  const { servers, processes } = bench;
  switch (fault.kind) {
    case 'kill':
      return processes.kill(pick(bench, fault), fault.downMs);
    case 'in merge':
      await untilMerging(bench);
      return toWorkers(bench, fault);
    case 'in backfill':
      await untilMoving(bench, fault.at);
      return toWorkers(bench, fault);
    case 'stop':
      return processes.stopFor(pick(bench, fault), fault.forMs);
    case 'kill postgres':
      return servers[fault.what].kill(fault.downMs);
    case 'restart postgres':
      return servers[fault.what].restart();
    case 'restart both':
      await Promise.all([servers.source.restart(fault.how), servers.store.restart(fault.how)]);
      return;
    case 'cut connections':
      return cutConnections(fault.what === 'source' ? bench.sourceUrl : bench.storeUrl);
    case 'drop slot':
      return dropSlot(bench);
    case 'kill redis':
      return servers.redis.kill(fault.downMs, fault);
    case 'empty queue':
      return bench.queue === 'redis' ? servers.redis.flushAll() : emptyPostgresQueue(bench);
  }
}

function pick({ processes }: Bench, { what, which }: { what: 'reader' | 'worker'; which: number }) {
  const all = what === 'reader' ? processes.readers : processes.workers;
  return all[which % all.length]!;
}

/** Any worker's merge. */
function untilMerging({ storeUrl }: Bench): Promise<void> {
  return untilFound(
    storeUrl,
    `select from pg_locks where locktype = 'advisory' and classid::bigint between $1 and $1 + 255 and granted limit 1`,
    [lockClass],
    lookForMergeMs,
  );
}

/** Some worker has the lock of a backfill that the store has in this state. */
function untilMoving({ storeUrl }: Bench, state: string): Promise<void> {
  return untilFound(
    storeUrl,
    `select from emend.backfill b
     join pg_locks l on l.objid::bigint = (hashtext(b.name)::bigint & 4294967295)
     where l.locktype = 'advisory' and l.classid::bigint = $1 and l.granted and b.state = $2
     limit 1`,
    [lockClassOfBackfills, state],
    lookForBackfillMs,
  );
}

/** Who waits in vain goes on. */
async function untilFound(url: string, sql: string, values: unknown[], forMs: number): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  const endAt = performance.now() + forMs;
  try {
    await client.connect();
    while (performance.now() < endAt) {
      const { rows } = await client.query(sql, values);
      if (rows.length > 0) break;
    }
  } catch {
    // the store is away: then it happens while they wait for it
  } finally {
    void client.end().catch(() => undefined);
  }
}

async function toWorkers(
  { servers, processes }: Bench,
  { of, forMs }: Extract<Fault, { kind: 'in merge' | 'in backfill' }>,
): Promise<void> {
  switch (of) {
    case 'kill':
      return processes.workers.forEach((worker) => processes.kill(worker, forMs));
    case 'stop':
      await Promise.all(processes.workers.map((worker) => processes.stopFor(worker, forMs)));
      return;
    case 'kill store':
      return servers.store.kill(0);
    case 'kill source':
      return servers.source.kill(0);
    case 'kill redis':
      return servers.redis.kill(forMs, { keepsData: true });
  }
}

/** As an administrator does it, or a failover: whoever reads it is cut off first. */
async function dropSlot({ sourceUrl }: Bench): Promise<void> {
  await eventually(
    async () => {
      await query(
        sourceUrl,
        `select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database() and active`,
      );
      await query(
        sourceUrl,
        `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()`,
      );
    },
    { timeoutMs: 30_000 },
  );
}

async function cutConnections(url: string): Promise<void> {
  await query(
    url,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()`,
  ).catch(() => undefined); // it is down: they are cut
}

async function emptyPostgresQueue({ storeUrl }: Bench): Promise<void> {
  await eventually(
    () => query(storeUrl, 'truncate emend_queue.job, emend_queue.emend_epoch, emend_queue.meta cascade'),
    { timeoutMs: 30_000 },
  );
}
