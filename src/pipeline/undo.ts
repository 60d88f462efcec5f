import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import type { TargetDeclaration } from '../config/target-declaration.ts';
import { identList, qualified } from '../db/identifier.ts';
import { withClient, withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { archivedAmong } from '../log/archive-records.ts';
import { mergeSettings } from '../merge/merge.ts';
import { undoCorrection } from '../merge/undo.ts';
import { ownObject } from '../store/names.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { inStore } from './list-diverged.ts';
import { requireReason } from './require-reason.ts';

export interface UndoOptions {
  readonly config: ResolvedConfig;
  readonly target: string;
  /** The `_id` of the correction; below zero for a row that was adopted with its table. */
  readonly id: string;
  readonly reason: string;
}

export interface Undone {
  readonly target: string;
  readonly id: string;
  /** Since when the store no longer believes it; null: it had been taken back before. */
  readonly toldAt: string | null;
}

/**
 * Takes one correction back. The request is written to the source first, since the log is the truth; run again after a
 * failure in between, it goes on.
 *
 * @throws EmendError `bad_arguments` for an empty reason; `correction_invalid` for a row that does not exist, belongs to a backfill, or is not merged
 */
export async function undo({ config, target: name, id, reason }: UndoOptions): Promise<Undone> {
  const declaration = findTarget(config.targets, name);
  requireReason(reason);
  return withServers(config, { role: 'undo', max: 2, settings: mergeSettings }, async ({ source, store }) => {
    await requireInstall(store);
    const [target] = await withClient(store, (client) => resolveTargets(client, [declaration]));
    await refuseDiverged(source, store, name, id);
    const isArchived = (await archivedAmong(source, name, [id])).size > 0;
    const key = await (isArchived
      ? withClient(store, (client) => readKey(client, target!, ofStore(declaration), id))
      : BigInt(id) < 0n
        ? withClient(store, (client) => readKey(client, target!, ofBaseline(target!), id))
        : withClient(source, (client) => readKey(client, target!, ofLog(name), id)));
    const actor = await withTransaction(source, (client) => request(client, name, id, reason));
    const toldAt = await undoCorrection(store, { target: target!, id, key, actor, reason });
    return { target: name, id, toldAt };
  });
}

/** By its number alone, another correction than the one that was merged could be taken back. */
async function refuseDiverged(source: Pool, store: Pool, target: string, id: string): Promise<void> {
  const merged = await store.query<{ nonce: string }>(
    `select _nonce as nonce from emend.ledger_at($1::bigint) where target = $2 and dismissed is null`,
    [id, target],
  );
  if (merged.rows.length === 0) return;
  const logged = await source.query<{ nonce: string }>(
    `select _nonce as nonce from ${qualified('corrections', target)} where _id = $1::bigint`,
    [id],
  );
  if (logged.rows[0]?.nonce === merged.rows[0]!.nonce) return;
  if ((await archivedAmong(source, target, [id])).size > 0) return;
  throw new EmendError(
    'correction_invalid',
    `correction ${id} of ${target} is merged, and the source has lost it`,
    {
      remedy:
        'To have another answer, write a correction over it. See emend diverged list for all that the source lost.',
    },
  );
}

async function readKey(
  client: ClientBase,
  target: Target,
  corrections: string,
  id: string,
): Promise<string[]> {
  const names = target.key.map((each) => each.name);
  const { rows } = await client.query<Record<string, string | null>>(
    `select ${identList(names)}, c._backfill as _of_backfill from (${corrections}) as c where c._id = $1::bigint limit 1`,
    [id],
  );
  const row = rows[0];
  if (!row) {
    throw new EmendError('correction_invalid', `${target.name} has no correction ${id}`, {
      remedy: `See emend explain ${target.name} --key … for the corrections of a key.`,
    });
  }
  if (row._of_backfill) {
    throw new EmendError('correction_invalid', `correction ${id} belongs to backfill ${row._of_backfill}`, {
      remedy: `A backfill is reverted as a whole (emend backfill revert ${row._of_backfill} --reason …); or write a correction over this row.`,
    });
  }
  return names.map((each) => row[each]!);
}

function ofLog(target: string): string {
  return `select * from ${qualified('corrections', target)}`;
}

function ofBaseline(target: Target): string {
  return `select *, _version as _id, null as _backfill from ${ownObject(target, 'baseline')}`;
}

/** Of a row that is in a file: the store has all of its period (law 4), and so its key. */
function ofStore(declaration: TargetDeclaration): string {
  return `select s.*, l._backfill from (${inStore(declaration)}) as s cross join lateral emend.ledger_at(s._id) as l`;
}

/** Written once, however often it is asked for. Returns who asked first. */
async function request(client: ClientBase, target: string, id: string, reason: string): Promise<string> {
  await client.query(`select pg_advisory_xact_lock(hashtextextended('emend undo ' || $1 || ' ' || $2, 0))`, [
    id,
    target,
  ]);
  const { rows } = await client.query<{ actor: string }>(
    `with asked as (
       select _actor from corrections._request where request = 'undo' and details ->> 'undo' = $1 and details ->> 'target' = $2::text
     ),
     added as (
       insert into corrections._request (request, details, _reason)
       select 'undo', jsonb_build_object('target', $2::text, 'undo', $1::text), $3
       where not exists (select from asked)
       returning _actor
     )
     select _actor as actor from asked union all select _actor from added limit 1`,
    [id, target, reason],
  );
  return rows[0]!.actor;
}
