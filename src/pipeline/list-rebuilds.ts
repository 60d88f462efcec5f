import type { ResolvedConfig } from '../config/resolved-config.ts';
import { openStore } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';

export interface RebuildRecord {
  readonly id: string;
  readonly target: string;
  readonly actor: string;
  readonly reason: string | null;
  /** The version of emend that folded. */
  readonly logic: string;
  readonly known_at: string | null;
  readonly log_up_to: string | null;
  readonly log_position: string | null;
  readonly corrections: string | null;
  /** Rows that differed, of every kind. */
  readonly differed: string | null;
  readonly written_to: string | null;
  readonly taken_out: string | null;
  readonly put_in: string | null;
  readonly outcome: 'at_work' | 'compared' | 'swapped' | 'written' | 'failed' | 'died';
  readonly problem: string | null;
  readonly started_at: string;
  readonly ended_at: string | null;
}

/** The latest rebuilds, the last one first. */
export async function listRebuilds(
  config: ResolvedConfig,
  { target, limit }: { readonly target?: string | undefined; readonly limit: number },
): Promise<RebuildRecord[]> {
  if (target !== undefined) findTarget(config.targets, target);
  const store = await openStore(config, { role: 'rebuild', max: 1 });
  try {
    await requireInstall(store);
    const { rows } = await store.query<RebuildRecord>(
      `select r.id, r.target, r.actor, r.reason, r.logic, r.known_at, r.log_up_to, r.log_position, r.corrections,
         (select sum(f.value::bigint) from jsonb_each_text(r.found) f) as differed,
         r.written_to, r.taken_out, r.put_in, coalesce(r.outcome, 'at_work') as outcome, r.problem, r.started_at, r.ended_at
       from emend.rebuild r
       where $1::text is null or r.target = $1
       order by r.id desc
       limit $2::integer`,
      [target ?? null, limit],
    );
    return rows;
  } finally {
    await store.end();
  }
}
