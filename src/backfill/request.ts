import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import { EmendError } from '../errors.ts';

/** The log of requests: `corrections._request`. It is read, queued and swept like the log of a target, on a lane of its own. */
export const requestLog = '_request';

/** A row of `corrections._request`. */
export interface Request {
  readonly id: string;
  /** Null for what is of a single correction (undo, adopt): the command that asks for it carries it out itself. */
  readonly backfill: string | null;
  readonly request: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly actor: string | null;
  readonly reason: string | null;
  /** When it was asked for, by the source's clock, as text. */
  readonly askedAt: string;
}

export function requestsIn(rows: LogRows): Request[] {
  const column = (name: string) => rows.values[rows.columns.indexOf(name)]!;
  return column('_id').map((id, place) => ({
    id: id!,
    backfill: column('backfill')[place] ?? null,
    request: column('request')[place]!,
    details: JSON.parse(column('details')[place] ?? '{}') as Record<string, unknown>,
    actor: column('_actor')[place] ?? null,
    reason: column('_reason')[place] ?? null,
    askedAt: column('_recorded_at')[place]!,
  }));
}

const visibleWithinMs = 1_000;

/**
 * The stream may tell of a commit before other sessions see it: the WAL comes first, and a synchronous standby may be waited
 * for in between. Until the request is seen, the rows of its chunk are not there, nor what was sealed with it.
 *
 * @throws EmendError `backfill_busy` when that takes longer than a moment
 */
export async function untilVisible(source: Pool, id: string): Promise<void> {
  const deadline = performance.now() + visibleWithinMs;
  while (!(await isVisible(source, id))) {
    if (performance.now() > deadline) {
      throw new EmendError('backfill_busy', `request ${id} of the stream cannot be seen in the source yet`, {
        remedy:
          'It is tried again; if it stays so, see whether the source waits for a standby, or was restored.',
      });
    }
    await sleep(10);
  }
}

async function isVisible(source: Pool, id: string): Promise<boolean> {
  const { rows } = await source.query<{ visible: string }>(
    `select exists (select from corrections._request where _id = $1::bigint)::text as visible`,
    [id],
  );
  return rows[0]?.visible === 'true';
}

/** Whether it has been carried out (law 6). */
export async function isDone(store: Pool | ClientBase, { id }: Request): Promise<boolean> {
  const { rows } = await store.query<{ done: string }>(
    `select exists (select from emend.backfill_request r where r._id = $1::bigint)::text as done`,
    [id],
  );
  return rows[0]?.done === 'true';
}

/** In the transaction of its effect, where it has one. */
export async function recordDone(store: Pool | ClientBase, request: Request, outcome: string): Promise<void> {
  const { id, backfill, details, actor, reason, askedAt } = request;
  await store.query(
    `insert into emend.backfill_request (_id, backfill, request, details, actor, reason, asked_at, outcome)
     values ($1::bigint, $2, $3, $4::jsonb, $5, $6, $7::timestamptz, $8)
     on conflict (_id) do nothing`,
    [id, backfill, request.request, JSON.stringify(details), actor, reason, askedAt, outcome],
  );
}
