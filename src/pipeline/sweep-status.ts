import type { Pool } from 'pg';
import type { Problem } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';

/** How far log and ledger have been compared, and what was found. */
export interface SweepStatus {
  /** End of the last round; null: there has been none. */
  readonly roundAt: string | null;
  readonly roundAgoMs: number | null;
  /** Rows that the last round compared, and rows that it put on the queue. */
  readonly compared: number;
  readonly enqueued: number;
  /** Rows that were missing in the store at its end. */
  readonly missing: number;
  /** The last round that found something to put on the queue. */
  readonly lastEnqueuedAt: string | null;
  readonly lastEnqueued: number;
  /** What was committed longer ago than this is known to have had its effect; null: not known, or not of every target. */
  readonly behindMs: number | null;
  /** Migrated targets of this configuration that the last round left out: the process that sweeps does not know them. */
  readonly leftOut: readonly string[];
  /** How long ago the first of the targets was migrated; null: none has been. */
  readonly migratedAgoMs: number | null;
  /** The oldest transaction that has written and is still open, anywhere in the source's cluster: the sweep cannot look behind it. */
  readonly heldBy: { readonly who: string; readonly forMs: number } | null;
}

/** @param targets those of this configuration */
export async function readSweep(source: Pool, store: Pool, targets: readonly string[]): Promise<SweepStatus> {
  const { rows } = await store.query<Record<string, string | null>>(
    `select ended_at::text as ended_at,
            round(extract(epoch from clock_timestamp() - ended_at) * 1000)::text as ago_ms,
            compared::text as compared,
            enqueued::text as enqueued,
            missing::text as missing,
            last_enqueued_at::text as last_enqueued_at,
            last_enqueued::text as last_enqueued,
            round(extract(epoch from clock_timestamp() - complete_as_of) * 1000)::text as behind_ms,
            (select string_agg(t.name, ',' order by t.name) from emend.target t
             where t.name = any($1::text[]) and t.name <> all(coalesce(targets, '{}')) and ended_at is not null) as left_out,
            (select round(extract(epoch from clock_timestamp() - min(t.migrated_at)) * 1000)::text from emend.target t
             where t.name = any($1::text[])) as migrated_ago_ms
     from emend.sweep_round`,
    [targets],
  );
  const row = rows[0]!;
  const leftOut = row['left_out']?.split(',') ?? [];
  return {
    roundAt: row['ended_at'] ?? null,
    roundAgoMs: numberOf(row['ago_ms']),
    compared: Number(row['compared']),
    enqueued: Number(row['enqueued']),
    missing: Number(row['missing']),
    lastEnqueuedAt: row['last_enqueued_at'] ?? null,
    lastEnqueued: Number(row['last_enqueued']),
    behindMs: leftOut.length > 0 ? null : numberOf(row['behind_ms']),
    leftOut,
    migratedAgoMs: numberOf(row['migrated_ago_ms']),
    heldBy: await readHolder(source),
  };
}

/** Without `pg_monitor` a role sees only its own sessions in `pg_stat_activity`: then `behindMs` alone tells. */
export async function readHolder(source: Pool): Promise<SweepStatus['heldBy']> {
  const { rows } = await source.query<{ who: string; for_ms: string }>(
    `select writer.who, round(extract(epoch from clock_timestamp() - writer.since) * 1000)::text as for_ms
     from (
       select format('process %s (%s, database %s, %s)', a.pid, coalesce(nullif(a.application_name, ''), a.usename), a.datname, a.state) as who,
              a.xact_start as since
       from pg_stat_activity a
       where a.backend_xid is not null and a.pid <> pg_backend_pid()
       union all
       select format('prepared transaction %L', p.gid), p.prepared
       from pg_prepared_xacts p
     ) as writer
     order by writer.since
     limit 1`,
  );
  const holder = rows[0];
  return holder ? { who: holder.who, forMs: Number(holder.for_ms) } : null;
}

function numberOf(text: string | null | undefined): number | null {
  return text === null || text === undefined ? null : Number(text);
}

/** A merge that retries needs seconds; a transaction that writes for longer than a minute is worth a look. */
const patienceMs = 60_000;
const holdMs = 60_000;

export function judgeSweep(sweep: SweepStatus): Problem[] {
  const { roundAgoMs, missing, behindMs, heldBy, leftOut, migratedAgoMs } = sweep;
  const path = 'sweep';
  const problems: Problem[] = leftOut.map((name) => ({
    path: `targets.${name}`,
    problem: 'no running worker knows it: rows of its log wait',
    remedy: 'Restart reader and workers with this configuration.',
  }));
  if (roundAgoMs === null && migratedAgoMs !== null && migratedAgoMs > patienceMs) {
    problems.push({
      path,
      problem: `log and store have never been compared since emend was migrated, ${inWords(migratedAgoMs)} ago`,
      remedy: 'Start a worker (emend start, or emend worker), or see its log.',
    });
  }
  if (roundAgoMs !== null && roundAgoMs > patienceMs) {
    problems.push({
      path,
      problem: `log and store were last compared ${inWords(roundAgoMs)} ago`,
      remedy:
        'Start a worker (emend start, or emend worker), or see its log: it needs source, store and queue.',
    });
  }
  if (missing > 0 && behindMs !== null && behindMs > patienceMs) {
    problems.push({
      path,
      problem: `${countOf(missing, 'row of the logs has', 'rows of the logs have')} had no effect, the oldest for ${inWords(behindMs)}`,
      remedy: 'See whether the queue drains (queue, above), and the log of the workers.',
    });
  }
  if (heldBy && heldBy.forMs > holdMs) {
    problems.push({
      path,
      problem: `${heldBy.who} has written and not ended its transaction for ${inWords(heldBy.forMs)}: what the queue loses meanwhile is not found before it ends`,
      remedy: 'End it: commit, rollback prepared, or pg_terminate_backend.',
    });
  }
  return problems;
}

function inWords(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
