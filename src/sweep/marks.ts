import type { ClientBase } from 'pg';
import type { SourceNow } from './log-pages.ts';

/** Up to where the log of a target is known to be in the ledger. */
export interface Mark {
  readonly target: string;
  readonly source: string;
  /** Every committed row with a lower `_xid` has had its effect. */
  readonly belowXid: bigint;
  /** Rows up to this `_id` are still to be compared, whatever their `_xid`. */
  readonly idsUpTo: bigint | null;
}

/** Marks of another source, or above the horizon of a source that went back to an older state, say nothing about this one. */
export function isOfSource(
  { source, belowXid }: Mark,
  now: Pick<SourceNow, 'identity' | 'horizon'>,
): boolean {
  return source === now.identity && belowXid <= now.horizon;
}

export async function readMarks(
  store: Pick<ClientBase, 'query'>,
  targets: readonly string[],
): Promise<Mark[]> {
  const { rows } = await store.query<{ target: string; source: string; below: string; ids: string | null }>(
    `select target, source, below_xid::text as below, ids_up_to::text as ids
     from emend.sweep
     where target = any($1::text[])`,
    [targets],
  );
  return rows.map(({ target, source, below, ids }) => ({
    target,
    source,
    belowXid: BigInt(below),
    idsUpTo: ids === null ? null : BigInt(ids),
  }));
}

export async function writeMarks(store: ClientBase, marks: readonly Mark[]): Promise<void> {
  await store.query(
    `insert into emend.sweep (target, source, below_xid, ids_up_to)
     select mark.target, mark.source, mark.below, mark.ids
     from unnest($1::text[], $2::text[], $3::xid8[], $4::bigint[]) as mark (target, source, below, ids)
     on conflict (target) do update
     set source = excluded.source, below_xid = excluded.below_xid, ids_up_to = excluded.ids_up_to`,
    [
      marks.map(({ target }) => target),
      marks.map(({ source }) => source),
      marks.map(({ belowXid }) => String(belowXid)),
      marks.map(({ idsUpTo }) => (idsUpTo === null ? null : String(idsUpTo))),
    ],
  );
}

/** What the sweep is asked for, as the store has it. */
export interface Wish {
  /** The queue's epoch under which everything that was missing has been enqueued. */
  readonly epoch: string | null;
  /** Set while a request waits for its answer. */
  readonly askedAt: string | null;
  /** The request is for the logs from their beginning. */
  readonly all: boolean;
}

export async function readWish(store: ClientBase): Promise<Wish> {
  const { rows } = await store.query<{ epoch: string | null; asked_at: string | null; asked_all: string }>(
    `select epoch,
            case when answered_at is null or answered_at < asked_at then asked_at end::text as asked_at,
            asked_all::text as asked_all
     from emend.sweep_round`,
  );
  const { epoch, asked_at: askedAt, asked_all: all } = rows[0]!;
  return { epoch, askedAt, all: all === 'true' };
}

/** Everything that was missing is enqueued; a request that came in the meantime stays open. */
export async function answerWish(
  store: ClientBase,
  { epoch, askedAt }: { epoch: string; askedAt: string | null },
): Promise<void> {
  await store.query(
    `update emend.sweep_round
     set epoch = $1,
         answered_at = coalesce($2::timestamptz, answered_at),
         asked_all = asked_all and asked_at is distinct from $2::timestamptz`,
    [epoch, askedAt],
  );
}

/** What one round did. */
export interface Round {
  readonly tookMs: number;
  /** Rows of the logs that were looked for in the store. */
  readonly compared: number;
  /** Rows that have had no effect yet, as far as the round has looked. */
  readonly missing: number;
  readonly enqueued: number;
  /** What was committed longer ago than this is known to have had its effect; null while that is not known of anything. */
  readonly completeMs: number | null;
}

/**
 * `targets` are those that the round compared: `status` names a target that is not among them, and what was complete without a
 * target says nothing about it.
 */
export async function writeRound(store: ClientBase, round: Round, targets: readonly string[]): Promise<void> {
  await store.query(
    `update emend.sweep_round
     set ended_at = clock_timestamp(),
         took_ms = $1::integer,
         compared = $2::bigint,
         missing = $3::bigint,
         enqueued = $4::bigint,
         last_enqueued_at = case when $4::bigint > 0 then clock_timestamp() else last_enqueued_at end,
         last_enqueued = case when $4::bigint > 0 then $4::bigint else last_enqueued end,
         complete_as_of = coalesce(clock_timestamp() - $5::double precision * interval '1 millisecond', case when targets @> $6::text[] then complete_as_of end),
         targets = $6::text[]`,
    [
      String(Math.round(round.tookMs)),
      String(round.compared),
      String(round.missing),
      String(round.enqueued),
      round.completeMs === null ? null : String(round.completeMs),
      targets,
    ],
  );
}

/** Asks whichever process leads to enqueue all that is missing at once, and returns when that was. */
export async function askForSweep(
  store: Pick<ClientBase, 'query'>,
  { all = false }: { all?: boolean } = {},
): Promise<string> {
  const { rows } = await store.query<{ asked_at: string }>(
    `update emend.sweep_round
     set asked_at = clock_timestamp(), asked_all = asked_all or $1::boolean
     returning asked_at::text as asked_at`,
    [String(all)],
  );
  return rows[0]!.asked_at;
}

export async function isAnswered(store: Pick<ClientBase, 'query'>, askedAt: string): Promise<boolean> {
  const { rows } = await store.query<{ answered: string }>(
    `select coalesce(answered_at >= $1::timestamptz, false)::text as answered from emend.sweep_round`,
    [askedAt],
  );
  return rows[0]?.answered === 'true';
}

/** 'E' in the highest byte, as of the other locks of emend; the ticker of the clock has number 1. */
const sweepLock = (69n << 56n) + 2n;

/** A session lock: one sweep a store. */
export async function takeLead(store: ClientBase): Promise<boolean> {
  const { rows } = await store.query<{ taken: string }>(
    `select pg_try_advisory_lock(${sweepLock})::text as taken`,
  );
  return rows[0]?.taken === 'true';
}
