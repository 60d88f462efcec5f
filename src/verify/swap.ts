import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { logTable } from '../log/log-columns.ts';
import { withinFence } from '../merge/fence.ts';
import { countOf } from '../observe/count-of.ts';
import { compare, compareRebuilt } from './compare.ts';
import { load, loadStored } from './load.ts';
import type { Begun } from './rebuild-record.ts';
import { recordEnd } from './rebuild-record.ts';
import { forgetAsked, keyList, rebuiltTables } from './rebuilt.ts';
import { spareOrphans } from './repair.ts';
import { openWorkspace } from './workspace.ts';
import type { Examined } from './workspace.ts';
import { writeDifferences } from './write-differences.ts';
import type { Written } from './write-differences.ts';

export interface Swap {
  readonly source: Pool;
  readonly store: Pool;
  /** What was folded: of what was told after its `until`, nothing is in the rebuilt rows. */
  readonly examined: Examined;
  readonly begun: Begun;
}

/**
 * Exchanges the rows of the keys that differ for the rebuilt ones, in one transaction, behind a fence around these keys: merges
 * of all other keys go on, and readers see the table as it was until it commits. Rows are exchanged, not the relation, so
 * whatever hangs on the table stays. No time of belief is new: nothing is told.
 *
 * Before it commits, the rows that were written are read again and compared (a trigger of the table may have changed them).
 *
 * @throws EmendError `key_fenced` while somebody else is at work on one of the keys; `invariant_broken` when what was written
 *   is not what the log says
 */
export async function swap({ source, store, examined, begun }: Swap): Promise<Written> {
  const { target } = examined;
  const keys = `select ${keyList(target)} from ${rebuiltTables(target).keys}`;
  const parts = [{ target, number: begun.number, keys }];
  return withinFence(store, `rebuild of ${target.name}`, parts, async (client) => {
    await requireRevision(client, target, begun);
    const anew = await foldAnew(source, { ...examined, client });
    const rebuilt = await putRebuilt(client, target);
    const written = { takenOut: anew.takenOut + rebuilt.takenOut, putIn: anew.putIn + rebuilt.putIn };
    await recordEnd(client, begun, 'swapped', written);
    return written;
  });
}

async function requireRevision(client: ClientBase, { name }: Target, { revision }: Begun): Promise<void> {
  const { rows } = await client.query<{ revision: string }>(
    `select revision from emend.target where name = $1`,
    [name],
  );
  if (Number(rows[0]?.revision) === revision) return;
  throw new EmendError(
    'migration_conflict',
    `${name} was migrated while it was rebuilt; nothing was swapped`,
    {
      remedy: 'Rebuild it again, with the columns that it has now.',
    },
  );
}

/** Keys of which something was told, or taken back, since the fold: it is made again, as of now. */
async function foldAnew(source: Pool, folded: Examined): Promise<Written> {
  const keys = await keysToldSince(source, folded);
  if (keys[0]!.length === 0) return { takenOut: 0, putIn: 0 };
  const examined: Examined = { ...folded, until: 'infinity', keys };
  await openWorkspace(examined);
  const claims = await load(source, examined, () => {});
  const written = await writeChecked(examined, async () => {
    await compare(examined, { claims });
    await spareOrphans(source, examined);
  });
  await forgetAsked(examined);
  return written;
}

/** Of the keys that differ; as text, one array a key column. */
async function keysToldSince(source: Pool, { client, target, until }: Examined): Promise<string[][]> {
  const { rows: told } = await client.query<{ id: string }>(
    `select l._id as id from emend.ledger l where l.target = $1 and l.told_at > $2::timestamptz and l.dismissed is null`,
    [target.name, until],
  );
  const { rows: logged } = await source.query<string[]>({
    text: `select ${keyList(target)} from ${logTable(target)} where _id = any($1::bigint[])`,
    values: [told.map(({ id }) => id)],
    rowMode: 'array',
  });
  if (logged.length < told.length) throw goneFromLog(target, told.length - logged.length);
  await openWorkspace({ client, target, until, keys: columnWise(target, logged) });
  const { rows: rebuilt, keys } = rebuiltTables(target);
  // what was taken back was told before, and stands among the rebuilt rows
  await client.query(
    `insert into pg_temp.verify_asked
     select distinct ${target.key.map((_, index) => `r.k${index}`).join(', ')}
     from ${rebuilt} r join emend.undone u on u._id = r.id and u.target = $1 and u.told_at > $2::timestamptz`,
    [target.name, until],
  );
  const { rows } = await client.query<string[]>({
    text: `select distinct ${keyList(target)} from pg_temp.verify_asked
           intersect
           select ${keyList(target)} from ${keys}`,
    rowMode: 'array',
  });
  return columnWise(target, rows);
}

/** Told since the fold, and archived since, or lost: their keys are in no log, and were folded without them. */
function goneFromLog({ name }: Target, rows: number): EmendError {
  return new EmendError(
    'rebuild_busy',
    `${countOf(rows, 'correction')} of ${name} left the log while it was rebuilt; nothing was swapped`,
    {
      remedy:
        'Rebuild it again, and archive nothing of it meanwhile. See emend status for what a source has lost.',
    },
  );
}

function columnWise(target: Target, keys: readonly (readonly string[])[]): string[][] {
  return target.key.map((_, column) => keys.map((key) => key[column]!));
}

async function putRebuilt(client: ClientBase, target: Target): Promise<Written> {
  const { rows, keys } = rebuiltTables(target);
  const examined: Examined = { client, target, until: 'infinity', keys: null };
  await openWorkspace(examined);
  await client.query(`insert into pg_temp.verify_asked select ${keyList(target)} from ${keys}`);
  await client.query('analyze pg_temp.verify_asked');
  const count = await client.query<{ rows: string }>(`select count(*) as rows from ${rows}`);
  await loadStored(examined, true);
  return writeChecked(examined, () => compareRebuilt(examined, rows, Number(count.rows[0]!.rows)));
}

/** Writes what differs, and proves that nothing differs any more. `look` fills `verify_difference`. */
async function writeChecked(examined: Examined, look: () => Promise<void>): Promise<Written> {
  const { client, target } = examined;
  await look();
  const written = await writeDifferences(examined);
  await client.query('truncate pg_temp.verify_stored, pg_temp.verify_difference');
  await loadStored(examined, true);
  await look();
  const { rows } = await client.query<{ left: string }>(
    'select count(*) as left from pg_temp.verify_difference',
  );
  if (rows[0]!.left === '0') return written;
  throw new EmendError(
    'invariant_broken',
    `${target.name}: ${rows[0]!.left} rows that were written are not as the log says; nothing was swapped`,
    {
      remedy: `Look for a trigger of ${target.schema}.${target.table}, or of emend's tables beside it, that changes rows as they are written.`,
    },
  );
}
