import type { Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { isEmendError } from '../errors.ts';
import type { Problem } from '../errors.ts';
import { readLackingArchives } from './archive-status.ts';
import { readBackfillStatus } from './backfill-status.ts';
import { withServers } from './connections.ts';
import { readCut } from './cut-report.ts';
import { readDivergedStatus } from './diverged-status.ts';
import { requireInstall } from './install.ts';
import { judgeStatus } from './judge-status.ts';
import { withQueue } from './install-queue.ts';
import { readReaders } from './slot-status.ts';
import { readSweep } from './sweep-status.ts';
import type { QueueStatus, Status, TargetStatus } from './status-report.ts';

/** How the whole is doing, read from the servers themselves: it is the same wherever it is asked. */
export async function readStatus(config: ResolvedConfig): Promise<Status> {
  return withServers(config, { role: 'status', max: 2 }, async ({ source, store }) => {
    const install = await requireInstall(store);
    const names = config.targets.map(({ name }) => name);
    const [readers, targets, settled, sweep, cut, diverged, lackingArchives, backfills, queue] =
      await Promise.all([
        readReaders(source, install, { readers: config.capture.readers, targets: names }),
        readTargets(store, config),
        readSettled(store),
        readSweep(source, store, names),
        readCut(store),
        readDivergedStatus(source, store),
        readLackingArchives(store),
        readBackfillStatus(store),
        readQueue(config, install),
      ]);
    const status = {
      install,
      ...readers,
      queue: queue.status,
      targets,
      settled,
      sweep,
      cut,
      diverged,
      lackingArchives,
      backfills,
    };
    return { ...status, problems: [...queue.problems, ...judgeStatus(status)] };
  });
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

/** A queue that is away, or not fit, must not hide the rest. */
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
    const reachable = isEmendError(error) && ['queue_unsuitable', 'queue_stalled'].includes(error.code);
    return { status: { kind, reachable }, problems: queueProblems(error) };
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
