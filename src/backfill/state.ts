import type { ClientBase, Pool } from 'pg';
import { EmendError } from '../errors.ts';
import type { Request } from './request.ts';

export type BackfillState = 'open' | 'sealed' | 'staged' | 'checked' | 'promoted' | 'reverted' | 'abandoned';

/** Valid period and key filter of one target that the rows of a backfill must stay within. */
export interface Boundary {
  readonly from?: string | null;
  readonly to?: string | null;
  /** SQL over the key columns. */
  readonly where?: string | null;
}

/** The promote that was asked for and is not done yet. */
export interface Wish {
  readonly request: string;
  readonly actor: string | null;
  readonly reason: string | null;
  /** Failing checks that are accepted: name -> reason. */
  readonly accept: Readonly<Record<string, string>>;
  /** Not before this time, as text. */
  readonly at: string | null;
  /** Also where the configuration says that none begins now. */
  readonly ignoreWindow: boolean;
  /** What it waits for: written down by whoever looked last. */
  readonly waits?: Wait;
}

/** A promote whose time has not come. */
export interface Wait {
  readonly until: string;
  /** Where the times are stated that it waits for; empty: for the time that it was asked for. */
  readonly closedBy: readonly string[];
}

/** What the store has to hold of a target. */
export interface Sealed {
  readonly rows: number;
  readonly digest: string;
  /** Those that are in the digest, in order: the target's, as it was when it was sealed. */
  readonly columns: readonly string[];
}

/** A backfill as this store knows it. */
export interface Backfill {
  readonly name: string;
  readonly targets: readonly string[];
  readonly boundary: Readonly<Record<string, Boundary>>;
  readonly origin: Readonly<Record<string, unknown>>;
  readonly checks: Readonly<Record<string, unknown>>;
  readonly state: BackfillState;
  /** By target. */
  readonly sealed: Readonly<Record<string, Sealed>> | null;
  readonly wish: Wish | null;
  readonly problem: string | null;
  /** The time of belief that its checks looked at. */
  readonly checkedAt: string | null;
  readonly toldAt: string | null;
  readonly openedAt: string;
}

interface Stored {
  name: string;
  targets: string;
  boundary: string;
  origin: string;
  checks: string;
  state: BackfillState;
  sealed: string | null;
  wish: string | null;
  problem: string | null;
  checked_at: string | null;
  told_at: string | null;
  opened_at: string;
}

export async function readBackfill(store: Pool | ClientBase, name: string): Promise<Backfill | undefined> {
  const { rows } = await store.query<Stored>(
    `select name, to_jsonb(targets)::text as targets, boundary::text as boundary, origin::text as origin, checks::text as checks, state,
       sealed::text as sealed, wish::text as wish, problem, checked_at::text as checked_at, told_at::text as told_at, opened_at::text as opened_at
     from emend.backfill
     where name = $1`,
    [name],
  );
  const row = rows[0];
  if (!row) return undefined;
  return {
    name: row.name,
    targets: JSON.parse(row.targets) as string[],
    boundary: JSON.parse(row.boundary) as Backfill['boundary'],
    origin: JSON.parse(row.origin) as Backfill['origin'],
    checks: JSON.parse(row.checks) as Backfill['checks'],
    state: row.state,
    sealed: row.sealed === null ? null : (JSON.parse(row.sealed) as Backfill['sealed']),
    wish: row.wish === null ? null : (JSON.parse(row.wish) as Wish),
    problem: row.problem,
    checkedAt: row.checked_at,
    toldAt: row.told_at,
    openedAt: row.opened_at,
  };
}

/**
 * Takes over what the author stated, from the source: at the first request, and once more when it is sealed. Returns null for
 * what is no backfill of workers: an import.
 */
export async function takeOver(source: Pool, store: Pool, name: string): Promise<Backfill | null> {
  const { rows } = await source.query<Record<string, string | null>>(
    `select kind, to_jsonb(targets)::text as targets, boundary::text as boundary, logic_version, reason, actor, origin::text as origin,
       checks::text as checks, sealed::text as sealed, opened_at::text as opened_at
     from corrections._backfill
     where name = $1`,
    [name],
  );
  const stated = rows[0];
  if (!stated) {
    throw new EmendError(
      'invariant_broken',
      `the source has a request for backfill ${name}, and no such backfill`,
      {
        remedy: 'Look who deleted it from corrections._backfill; its rows are in the logs.',
      },
    );
  }
  if (stated['kind'] !== 'backfill') return null;
  await store.query(
    `with taken as (
       insert into emend.backfill (name, targets, boundary, logic_version, reason, origin, checks, sealed, opened_at)
       select $1, array(select jsonb_array_elements_text($2::jsonb)), $3::jsonb, $4, $5, $6::jsonb, $7::jsonb, $8::jsonb, $9::timestamptz
       on conflict (name) do update
         -- sealed once: who read it before the seal may come to write after who read it later
         set sealed = excluded.sealed, checks = excluded.checks, boundary = excluded.boundary, origin = excluded.origin,
           reason = excluded.reason, logic_version = excluded.logic_version
         where emend.backfill.sealed is null or excluded.sealed is not null
       returning (xmax = 0) as is_new
     )
     insert into emend.backfill_event (backfill, state, at, actor, reason)
     select $1, 'open', $9::timestamptz, $10, $5 from taken where is_new`,
    [
      name,
      stated['targets'],
      stated['boundary'],
      stated['logic_version'],
      stated['reason'],
      stated['origin'],
      stated['checks'],
      stated['sealed'],
      stated['opened_at'],
      stated['actor'],
    ],
  );
  return (await readBackfill(store, name))!;
}

/** Who moves a backfill on: a request, or the worker by itself. */
export type Mover = Pick<Request, 'id' | 'actor' | 'reason'> | undefined;

/** What a state comes after. */
const comesAfter: Readonly<Record<BackfillState, readonly BackfillState[]>> = {
  open: [],
  sealed: ['open'],
  staged: ['sealed'],
  checked: ['staged'],
  promoted: ['checked'],
  reverted: ['promoted'],
  abandoned: ['open', 'sealed', 'staged', 'checked'],
};

/**
 * One transition, with its record; in the transaction of what it is about.
 *
 * @throws EmendError `backfill_busy` when it is in no state that this one comes after: another worker has moved it
 */
export async function moveTo(
  store: Pool | ClientBase,
  name: string,
  state: BackfillState,
  by: Mover,
): Promise<void> {
  const { rowCount } = await store.query(
    `with moved as (
       update emend.backfill
       set state = $2, problem = null, updated_at = clock_timestamp()
       where name = $1 and state = any ($6::text[])
       returning name
     )
     insert into emend.backfill_event (backfill, state, actor, reason, request)
     select name, $2, coalesce($3, current_user), $4, $5::bigint from moved`,
    [name, state, by?.actor ?? null, by?.reason ?? null, by?.id ?? null, comesAfter[state]],
  );
  if (rowCount === 0) {
    throw new EmendError(
      'backfill_busy',
      `backfill ${name} cannot become ${state}: another worker moved it`,
      {
        remedy: 'Nothing has to be done: it is looked at again.',
      },
    );
  }
}

/** Says why it does not go on, or with null that it does. */
export async function writeProblem(
  store: Pool | ClientBase,
  name: string,
  problem: string | null,
): Promise<void> {
  await store.query(
    `update emend.backfill set problem = $2, updated_at = clock_timestamp() where name = $1 and problem is distinct from $2`,
    [name, problem],
  );
}

export async function writeWish(store: Pool | ClientBase, name: string, wish: Wish): Promise<void> {
  await store.query(
    `update emend.backfill set wish = $2::jsonb, updated_at = clock_timestamp() where name = $1`,
    [name, JSON.stringify(wish)],
  );
}

/** Says until when a promote waits: of this wish, if it still stands. */
export async function writeWait(store: Pool, name: string, { request }: Wish, wait: Wait): Promise<void> {
  await store.query(
    `update emend.backfill
     set wish = wish || jsonb_build_object('waits', $3::jsonb)
     where name = $1 and wish ->> 'request' = $2 and wish -> 'waits' is distinct from $3::jsonb`,
    [name, request, JSON.stringify(wait)],
  );
}

/** Takes the wish back, and says why. */
export async function refuseWish(store: Pool | ClientBase, name: string, problem: string): Promise<void> {
  await store.query(
    `update emend.backfill set wish = null, problem = $2, updated_at = clock_timestamp() where name = $1`,
    [name, problem],
  );
}
