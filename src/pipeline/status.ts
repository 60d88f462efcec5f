import type { Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { isEmendError } from '../errors.ts';
import type { Problem } from '../errors.ts';
import { slotName } from '../capture/names.ts';
import { withServers } from './connections.ts';
import { requireInstall } from './install.ts';
import { judgeStatus } from './judge-status.ts';
import { withQueue } from './install-queue.ts';
import { readSweep } from './sweep-status.ts';
import type { QueueStatus, SlotStatus, Status, TargetStatus } from './status-report.ts';

/** How the whole is doing, read from the servers themselves: it is the same wherever it is asked. */
export async function readStatus(config: ResolvedConfig): Promise<Status> {
  return withServers(config, { role: 'status', max: 2 }, async ({ source, store }) => {
    const install = await requireInstall(store);
    const [slot, targets, settled, sweep, queue] = await Promise.all([
      readSlot(source, slotName(install)),
      readTargets(store, config),
      readSettled(store),
      readSweep(source, store),
      readQueue(config, install),
    ]);
    const status = { install, slot, queue: queue.status, targets, settled, sweep };
    return { ...status, problems: [...queue.problems, ...judgeStatus(status)] };
  });
}

async function readSlot(source: Pool, name: string): Promise<SlotStatus | null> {
  const { rows } = await source.query<{
    active: string;
    wal_status: string | null;
    confirmed: string | null;
    lag_bytes: string | null;
    retained_bytes: string | null;
  }>(
    `select active::text as active,
            wal_status,
            confirmed_flush_lsn::text as confirmed,
            pg_wal_lsn_diff(here.lsn, confirmed_flush_lsn)::text as lag_bytes,
            pg_wal_lsn_diff(here.lsn, restart_lsn)::text as retained_bytes
     from pg_replication_slots
     cross join (
       select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn
     ) as here
     where slot_name = $1`,
    [name],
  );
  const slot = rows[0];
  if (!slot) return null;
  return {
    name,
    active: slot.active === 'true',
    walStatus: slot.wal_status ?? 'unknown',
    confirmed: slot.confirmed,
    lagBytes: Number(slot.lag_bytes ?? 0),
    retainedBytes: Number(slot.retained_bytes ?? 0),
  };
}

async function readTargets(store: Pool, { targets }: ResolvedConfig): Promise<TargetStatus[]> {
  // `emend.merge` has one row a merge where the ledger has one a log row
  const { rows } = await store.query<{ name: string; migrated: string; merged: string; set_aside: string }>(
    `select wanted.name,
            exists (select from emend.target t where t.name = wanted.name)::text as migrated,
            (select coalesce(sum(m.rows), 0) from emend.merge m where m.target = wanted.name)::text as merged,
            (select count(*) from emend.dead_letter_open d where d.target = wanted.name)::text as set_aside
     from unnest($1::text[]) as wanted (name)`,
    [targets.map((target) => target.name)],
  );
  return targets.map(({ name, kind, schema, table }) => {
    const row = rows.find((candidate) => candidate.name === name);
    return {
      name,
      kind,
      table: `${schema}.${table}`,
      migrated: row?.migrated === 'true',
      merged: Number(row?.merged ?? 0),
      setAside: Number(row?.set_aside ?? 0),
    };
  });
}

async function readSettled(store: Pool): Promise<Status['settled']> {
  const { rows } = await store.query<{ at: string; lag_ms: string }>(
    `select settled::text as at, round(extract(epoch from clock_timestamp() - settled) * 1000)::text as lag_ms
     from emend.clock`,
  );
  return { at: rows[0]!.at, lagMs: Number(rows[0]!.lag_ms) };
}

/** A queue that is away must not hide the rest. */
async function readQueue(
  config: ResolvedConfig,
  install: string,
): Promise<{ status: QueueStatus; problems: Problem[] }> {
  try {
    return await withQueue(config, install, async (queue) => ({
      status: { kind: queue.kind, ...(await queue.counts()) },
      problems: [],
    }));
  } catch (error) {
    const kind = config.queue.redis === null ? 'postgres' : 'redis';
    return { status: { kind, reachable: false }, problems: queueProblems(error) };
  }
}

function queueProblems(error: unknown): Problem[] {
  if (isEmendError(error)) {
    const { problems, message, remedy } = error;
    return problems.length > 0 ? [...problems] : [{ path: 'queue', problem: message, remedy }];
  }
  return [
    {
      path: 'queue',
      problem: 'its server does not answer',
      remedy: 'Start it, or correct queue.redis (REDIS_URL).',
    },
  ];
}
