import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';

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
