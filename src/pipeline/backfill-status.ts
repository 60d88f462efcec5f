import type { Pool } from 'pg';
import type { Wait } from '../backfill/state.ts';
import type { Problem } from '../errors.ts';

/** A backfill that is under way in the store. */
export interface BackfillStatus {
  readonly name: string;
  readonly state: string;
  /** Why it does not go on. */
  readonly problem: string | null;
  /** What a promote that was asked for waits for. */
  readonly waits: Wait | null;
  /** Since when it is in this state, ms ago. */
  readonly sinceMs: number;
}

/** Those that are not ended, and promoted ones that cannot be reverted; the others are told by `emend backfill list`. */
export async function readBackfillStatus(store: Pool): Promise<BackfillStatus[]> {
  const { rows } = await store.query<{
    name: string;
    state: string;
    problem: string | null;
    waits: string | null;
    since_ms: string;
  }>(
    `select name, state, problem, (wish -> 'waits')::text as waits, round(extract(epoch from clock_timestamp() - updated_at) * 1000)::text as since_ms
     from emend.backfill
     where state not in ('promoted', 'reverted', 'abandoned') or problem is not null and state = 'promoted'
     order by opened_at`,
  );
  return rows.map(({ name, state, problem, waits, since_ms }) => ({
    name,
    state,
    problem,
    waits: waits === null ? null : (JSON.parse(waits) as Wait),
    sinceMs: Number(since_ms),
  }));
}

export function judgeBackfills(backfills: readonly BackfillStatus[]): Problem[] {
  return backfills.flatMap(({ name, problem }) =>
    problem === null
      ? []
      : [
          {
            path: `backfills.${name}`,
            problem,
            remedy: `Look at it: emend backfill show ${name}. What its author does not want any more is abandoned.`,
          },
        ],
  );
}
