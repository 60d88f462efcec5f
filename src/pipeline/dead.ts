import type { ClientBase, Pool } from 'pg';
import { stageRows } from '../backfill/stage.ts';
import type { LogRows } from '../change/batch.ts';
import type { Log } from '../change/ports.ts';
import type { Target } from '../change/target.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient, withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { createMerge, mergeSessions } from '../merge/merge.ts';
import { ownObject } from '../store/names.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { openStore } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { requireReason } from './require-reason.ts';

/** A log row that was set aside, and what became of it since. */
export interface DeadLetter {
  readonly target: string;
  readonly _id: string;
  /** The key as the log has it. */
  readonly key: Readonly<Record<string, string | null>>;
  readonly sqlstate: string;
  readonly reason: string;
  readonly attempts: number;
  readonly set_aside_at: string;
  readonly tried_at: string;
  readonly state: 'open' | 'merged' | 'staged' | 'discarded';
  readonly closed_at: string | null;
  readonly closed_by: string | null;
  readonly closed_reason: string | null;
}

export interface ListOptions {
  readonly target?: string | undefined;
  /** Also those that were merged or discarded since: the record of them is kept for ever. */
  readonly closed?: boolean;
}

export async function listDeadLetters(
  config: ResolvedConfig,
  { target, closed }: ListOptions = {},
): Promise<DeadLetter[]> {
  if (target !== undefined) findTarget(config.targets, target);
  return withStore(config, async (store) => {
    const { rows } = await store.query<Record<keyof DeadLetter | 'log_row', string | null>>(
      `select d.target, d._id, d.log_row::text as log_row, d.sqlstate, d.reason, d.attempts, d.set_aside_at, d.tried_at,
         case when l._id is not null then coalesce(l.dismissed, 'merged') when d.staged_at is not null then 'staged' else 'open' end as state,
         coalesce(l.told_at, d.staged_at) as closed_at, l.dismissed_by as closed_by, l.dismissed_reason as closed_reason
       from emend.dead_letter d
       left join lateral emend.ledger_at(d._id) l on true
       where ($1::text is null or d.target = $1) and ($2 or (l._id is null and d.staged_at is null))
       order by d._id`,
      [target ?? null, closed === true],
    );
    return rows.map(({ log_row, ...letter }) => {
      const declaration = config.targets.find(({ name }) => name === letter.target);
      const row = JSON.parse(log_row!) as Record<string, string | null>;
      const key = Object.fromEntries((declaration?.key ?? []).map((name) => [name, row[name] ?? null]));
      return { ...letter, key, attempts: Number(letter.attempts) } as DeadLetter;
    });
  });
}

/** Which dead letters: by their `_id`s, or all open ones (of a target). */
export interface Chosen {
  readonly ids: readonly string[];
  readonly all?: boolean;
  readonly target?: string | undefined;
}

export interface Retried {
  readonly merged: readonly string[];
  /** Rows of backfills: they wait for the promote. */
  readonly staged: readonly string[];
  /** Set aside again, each with the reason of now. */
  readonly setAside: readonly { readonly _id: string; readonly reason: string }[];
}

/** Rows merged together; those at fault are found by halving, as in any batch. */
const rowsAtATime = 500;

/**
 * Merges dead letters again, as the log rows that they are: with their old version, through the merge that everything takes.
 * Those of a backfill are staged again instead: nobody sees them before it is promoted.
 *
 * @throws EmendError `correction_invalid`, and nothing is tried, when one of the ids is no open dead letter
 */
export async function retryDeadLetters(
  config: ResolvedConfig,
  chosen: Chosen,
  log: Log = silent,
): Promise<Retried> {
  const ofTarget = chosen.target === undefined ? null : findTarget(config.targets, chosen.target).name;
  return withStore(config, async (store) => {
    const targets = await withClient(store, (client) => resolveTargets(client, config.targets));
    const ids = await withClient(store, (client) => openIds(client, chosen, ofTarget));
    const handle = await createMerge({ pool: store, targets, log });
    const tried: Tried[] = [];
    for (let start = 0; start < ids.length; start += rowsAtATime) {
      const page = ids.slice(start, start + rowsAtATime);
      await stageAgain(store, targets, page);
      const parts = await readParts(store, page);
      const batch = {
        id: `dead-${page[0]}`,
        parts,
        rows: page.length,
        bytes: 0,
        endLsn: 0n,
        committedAtMs: 0,
      };
      if (parts.length > 0) await handle(batch, new AbortController().signal);
      tried.push(...(await readReasons(store, page)));
    }
    return {
      merged: tried.filter(({ reason, staged }) => reason === null && !staged).map(({ _id }) => _id),
      staged: tried.filter(({ staged }) => staged).map(({ _id }) => _id),
      setAside: tried.flatMap(({ _id, reason }) => (reason === null ? [] : [{ _id, reason }])),
    };
  });
}

export interface Discarded {
  readonly discarded: readonly string[];
  /** Merged by somebody else in this moment, and so not discarded. */
  readonly merged: readonly string[];
}

/**
 * Gives dead letters up: the ledger holds them as dismissed, with who and why, so that nothing brings them again. Nothing of
 * them comes into a target; their record is kept.
 *
 * @throws EmendError, and nothing is discarded: `correction_invalid` when one of the ids is no open dead letter, `bad_arguments`
 *   for an empty reason
 */
export async function discardDeadLetters(
  config: ResolvedConfig,
  ids: readonly string[],
  reason: string,
): Promise<Discarded> {
  requireReason(reason);
  return withStore(config, (store) =>
    withTransaction(store, async (client) => {
      const wanted = await openIds(client, { ids }, null);
      const { rows } = await client.query<{ _id: string }>(
        // a merge that is bringing the row in at this moment has the ledger's row first: then it is merged
        `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _backfill, _actor, _reason, dismissed, dismissed_by, dismissed_reason)
         select d._id, d.target, clock_timestamp(), (d.log_row ->> '_nonce')::bigint, (d.log_row ->> '_recorded_at')::timestamptz,
           d.log_row ->> '_backfill', d.log_row ->> '_actor', d.log_row ->> '_reason', 'discarded', current_user, $2
         from emend.dead_letter d
         where d._id = any($1::bigint[])
         order by d._id
         on conflict (_id) do nothing
         returning _id`,
        [wanted, reason],
      );
      const discarded = rows.map((row) => row._id);
      return { discarded, merged: wanted.filter((id) => !discarded.includes(id)) };
    }),
  );
}

async function openIds(client: ClientBase, { ids, all }: Chosen, target: string | null): Promise<string[]> {
  const { rows } = await client.query<{ _id: string }>(
    `select d._id from emend.dead_letter_open d
     where ($1 or d._id = any($2::bigint[])) and ($3::text is null or d.target = $3)
     order by d._id`,
    [all === true, ids, target],
  );
  const open = new Set(rows.map((row) => row._id));
  const unknown = ids.filter((id) => !open.has(BigInt(id).toString()));
  if (unknown.length === 0) return [...open];
  const [are, s] = unknown.length === 1 ? ['is', ''] : ['are', 's'];
  throw new EmendError('correction_invalid', `${unknown.join(', ')} ${are} no open dead letter${s}`, {
    remedy:
      'Nothing has been changed. See emend dead list; with --closed it shows what became of the others.',
  });
}

async function stageAgain(store: Pool, targets: readonly Target[], ids: readonly string[]): Promise<void> {
  for (const rows of await readParts(store, ids, 'of backfills')) {
    const target = targets.find(({ name }) => name === rows.target)!;
    await stageRows(store, target, rows);
    await store.query(
      `update emend.dead_letter d set staged_at = clock_timestamp()
       from ${ownObject(target, 'staged')} s
       where d._id = any($1::bigint[]) and s._id = d._id`,
      [ids],
    );
  }
}

/** Column-wise, as capture would hand them over; a row from before a column existed has null in it. */
async function readParts(
  store: Pool,
  ids: readonly string[],
  which: 'live' | 'of backfills' = 'live',
): Promise<LogRows[]> {
  const { rows } = await store.query<{ target: string; log_row: string }>(
    `select target, log_row::text as log_row
     from emend.dead_letter
     where _id = any($1::bigint[]) and (log_row ->> '_backfill' is null) = $2
     order by _id`,
    [ids, which === 'live'],
  );
  const byTarget = new Map<string, Record<string, string | null>[]>();
  for (const { target, log_row } of rows) {
    const row = JSON.parse(log_row) as Record<string, string | null>;
    byTarget.set(target, [...(byTarget.get(target) ?? []), row]);
  }
  return [...byTarget].map(([target, ofTarget]) => {
    const columns = [...new Set(ofTarget.flatMap((row) => Object.keys(row)))];
    return { target, columns, values: columns.map((column) => ofTarget.map((row) => row[column] ?? null)) };
  });
}

interface Tried {
  readonly _id: string;
  /** Null: it is no dead letter any more. */
  readonly reason: string | null;
  readonly staged: boolean;
}

async function readReasons(store: Pool, ids: readonly string[]): Promise<Tried[]> {
  const { rows } = await store.query<{ _id: string; reason: string | null; staged: string }>(
    `select d._id, o.reason, (d.staged_at is not null)::text as staged
     from emend.dead_letter d
     left join emend.dead_letter_open o on o._id = d._id
     where d._id = any($1::bigint[])
     order by d._id`,
    [ids],
  );
  return rows.map((row) => ({ ...row, staged: row.staged === 'true' }));
}

async function withStore<T>(config: ResolvedConfig, body: (store: Pool) => Promise<T>): Promise<T> {
  const store = await openStore(config, { role: 'dead letters', max: 2, ...mergeSessions });
  try {
    await requireInstall(store);
    return await body(store);
  } finally {
    await store.end();
  }
}

/** What is set aside again is in the result. */
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };
