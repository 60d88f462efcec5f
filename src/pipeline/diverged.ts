/**
 * What is decided about log rows that log and ledger do not have alike, since the source lost what was merged (state `diverged`).
 *
 * Nothing is decided without a human: which of two rows under one number is right, and whether the effect of a row that the
 * source no longer knows should stay, no rule can tell.
 */
import type { ClientBase, Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { drawNumbersUpTo, writeAgain } from '../log/write-again.ts';
import type { DivergedRow, NamedRow } from '../store/diverged.ts';
import { openStore, withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { requireReason } from './require-reason.ts';

/** Which rows: by their `_id`s, or all open ones (of a target). */
export interface ChosenRows {
  readonly ids: readonly string[];
  readonly all?: boolean;
  readonly target?: string | undefined;
}

export interface Adopted {
  readonly adopted: readonly { readonly target: string; readonly _id: string; readonly new_id: string }[];
  /** No longer in the log: the source was replaced again. Nothing is decided about them. */
  readonly gone: readonly string[];
}

/**
 * Writes reused rows again, as new corrections that win over all earlier ones, in one transaction of the source; under their
 * old numbers they count as decided. Run again after a failure in between, it goes on. It also makes the source give out
 * numbers that the store does not know.
 *
 * @throws EmendError `bad_arguments` for an empty reason; `correction_invalid`, and nothing is changed, for an id that is no open reused row
 */
export async function adoptReused(
  config: ResolvedConfig,
  chosen: ChosenRows,
  reason: string,
): Promise<Adopted> {
  requireReason(reason);
  return withServers(config, { role: 'diverged', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    const rows = await choose(store, config, 'reused', chosen);
    const written = await withTransaction(source, async (client) => {
      await client.query(`select pg_advisory_xact_lock(hashtextextended('emend diverged adopt', 0))`);
      await drawNumbersUpTo(client, await greatestNumber(store));
      const done: (NamedRow & { newId: string })[] = [];
      for (const target of new Set(rows.map((row) => row.target))) {
        const ofTarget = rows.filter((row) => row.target === target);
        for (const row of await writeAgain(client, target, ofTarget, reason)) done.push({ target, ...row });
      }
      return done;
    });
    await decide(store, 'adopted', written, reason);
    const found = new Set(written.map(({ id, nonce }) => `${id} ${nonce}`));
    return {
      adopted: written.map(({ target, id, newId }) => ({ target, _id: id, new_id: newId })),
      gone: rows.filter(({ id, nonce }) => !found.has(`${id} ${nonce}`)).map(({ id }) => id),
    };
  });
}

/**
 * Says of lost rows that their effect stays, though the log does not have them. To have another answer, a correction is written
 * over it.
 *
 * @returns their `_id`s
 * @throws EmendError `bad_arguments` for an empty reason; `correction_invalid`, and nothing is changed, for an id that is no open lost row
 */
export async function keepLost(
  config: ResolvedConfig,
  chosen: ChosenRows,
  reason: string,
): Promise<string[]> {
  requireReason(reason);
  const store = await openStore(config, { role: 'diverged', max: 2 });
  try {
    await requireInstall(store);
    const rows = await choose(store, config, 'lost', chosen);
    await decide(store, 'kept', rows, reason);
    return rows.map(({ id }) => id);
  } finally {
    await store.end();
  }
}

async function choose(
  store: Pool,
  config: ResolvedConfig,
  kind: DivergedRow['kind'],
  { ids, all, target }: ChosenRows,
): Promise<NamedRow[]> {
  const ofTarget = target === undefined ? null : findTarget(config.targets, target).name;
  const { rows } = await store.query<NamedRow & { id: string }>(
    `select d.target, d._id as id, d._nonce as nonce
     from emend.diverged d
     where d.resolution is null and d.kind = $1 and ($2 or d._id = any($3::bigint[])) and ($4::text is null or d.target = $4)
     order by d._id, d._nonce`,
    [kind, all === true, ids, ofTarget],
  );
  const open = new Set(rows.map(({ id }) => id));
  const unknown = ids.filter((id) => !open.has(BigInt(id).toString()));
  if (unknown.length === 0) return rows;
  const are = unknown.length === 1 ? `is no open ${kind} row` : `are no open ${kind} rows`;
  throw new EmendError('correction_invalid', `${unknown.join(', ')} ${are}`, {
    remedy: 'Nothing has been changed. See emend diverged list.',
  });
}

async function decide(
  store: Pool | ClientBase,
  resolution: 'kept' | 'adopted',
  rows: readonly (NamedRow & { newId?: string })[],
  reason: string,
): Promise<void> {
  await store.query(
    `update emend.diverged d
     set resolution = $1, resolved_at = clock_timestamp(), resolved_by = current_user, resolved_reason = $2, new_id = a.new_id
     from unnest($3::bigint[], $4::bigint[], $5::bigint[]) as a (_id, _nonce, new_id)
     where d._id = a._id and d._nonce = a._nonce and d.resolution is null`,
    [
      resolution,
      reason,
      rows.map(({ id }) => id),
      rows.map(({ nonce }) => nonce),
      rows.map(({ newId }) => newId ?? null),
    ],
  );
}

/** Of all that the store knows, merged or set aside. */
async function greatestNumber(store: Pool): Promise<string> {
  const { rows } = await store.query<{ id: string }>(
    `select greatest(emend.ledger_last_id(), (select max(_id) from emend.dead_letter), 0) as id`,
  );
  return rows[0]!.id;
}
