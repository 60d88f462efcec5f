import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { withTransaction } from '../db/transaction.ts';
import { holdFence } from '../merge/fence.ts';
import { countOf } from '../observe/count-of.ts';
import { ownObject } from '../store/names.ts';
import { readHeld } from './completeness.ts';
import type { Held } from './completeness.ts';
import type { Promotion } from './promotion.ts';
import { allIds } from './stage.ts';
import { stageFromLog } from './stage-copy.ts';
import { moveTo, writeProblem } from './state.ts';
import type { Backfill, Sealed } from './state.ts';

/**
 * Moves a sealed backfill on when the store holds exactly what was sealed. Where all of its chunks were staged and it holds
 * something else, it is staged anew, once, under the columns that were sealed: the target may have gained one between a chunk
 * and the seal, or after it. What stands in the log under a column that came after the seal is staged with the rest.
 */
export async function stageIfComplete(
  source: Pool,
  promotion: Promotion,
  backfill: Backfill,
  isAnew = false,
): Promise<void> {
  const { store } = promotion;
  const lacking = await moveOnIfComplete(promotion, backfill);
  const blocked = lacking.find(({ held }) => held.setAside > 0);
  if (blocked) return writeProblem(store, backfill.name, rowsSetAside(blocked));
  const other: Lacking[] = [];
  for (const each of lacking) {
    const mayCome = each.held.rows < each.wanted.rows;
    if (!mayCome || (await areChunksDone(source, store, backfill.name, each.target))) other.push(each);
  }
  const [first] = other;
  if (!first) return;
  const problem = otherRows(first);
  // told before, of the same rows: it was staged anew then
  if (isAnew || backfill.problem === problem) return writeProblem(store, backfill.name, problem);
  for (const { target, wanted } of other) await stageAnew(source, promotion, target, wanted);
  return stageIfComplete(source, promotion, backfill, true);
}

/** A target of which the store does not hold what was sealed. */
interface Lacking {
  readonly target: Target;
  readonly held: Held;
  readonly wanted: Sealed;
}

/** Counted and moved in one transaction: nobody takes staged rows away in between (`stageAnew`). */
async function moveOnIfComplete(
  { store, targets }: Promotion,
  { name, sealed }: Backfill,
): Promise<Lacking[]> {
  return withTransaction(store, async (client) => {
    await holdFence(client, name);
    const lacking: Lacking[] = [];
    for (const { target } of targets) {
      const wanted = sealed?.[target.name] ?? { rows: 0, digest: '0', columns: ['_id'] };
      const held = await readHeld(client, target, name, wanted.columns);
      const isWhole = held.rows === wanted.rows && held.digest === wanted.digest && held.setAside === 0;
      if (!isWhole) lacking.push({ target, held, wanted });
    }
    if (lacking.length === 0) await moveTo(client, name, 'staged', undefined);
    return lacking;
  });
}

/** Whether nothing of a target is on its way: each chunk that was asked for has been carried out. */
async function areChunksDone(source: Pool, store: Pool, name: string, target: Target): Promise<boolean> {
  const asked = await source.query<{ id: string }>(
    `select r._id::text as id
     from corrections._request r
     where r.backfill = $1 and r.request = 'chunk' and r.details ->> 'target' = $2`,
    [name, target.name],
  );
  const { rows } = await store.query<{ done: string }>(
    `select (not exists (
       select from unnest($1::bigint[]) as asked (id)
       where not exists (select from emend.backfill_request r where r._id = asked.id)
     ))::text as done`,
    [asked.rows.map(({ id }) => id)],
  );
  return rows[0]?.done === 'true';
}

/** By the log, whole. Killed in between, rows are missing and all chunks are done: whoever comes next does it again. */
async function stageAnew(
  source: Pool,
  { store, backfill }: Promotion,
  target: Target,
  { columns }: Sealed,
): Promise<void> {
  await withTransaction(store, async (client) => {
    await holdFence(client, backfill);
    await deleteStaged(client, backfill, target);
  });
  await stageFromLog({ source, store }, { backfill, target, ...allIds }, columns);
}

/** Of a sealed backfill only: what is staged is checked as it is. */
async function deleteStaged(client: ClientBase, backfill: string, target: Target): Promise<void> {
  await client.query(
    `delete from ${ownObject(target, 'staged')} s
     using (select b.name from emend.backfill b where b.name = $1 and b.state = 'sealed' for update) as sealed
     where s._backfill = sealed.name`,
    [backfill],
  );
}

function rowsSetAside({ target, held }: Lacking): string {
  const rows = countOf(held.setAside, `row of ${target.name} is`, `rows of ${target.name} are`);
  return `${rows} set aside: retry or discard (emend dead list --target ${target.name})`;
}

function otherRows({ target, held, wanted }: Lacking): string {
  return `the store holds other rows of ${target.name} than were sealed, also when they are staged anew: ${held.rows} rows with digest ${held.digest}, sealed were ${wanted.rows} with ${wanted.digest}; abandon it, and load a new one`;
}
