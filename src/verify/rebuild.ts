/**
 * Rebuilds a target: folds it whole, from log and baseline, compares, and exchanges what differs.
 *
 * Promise: after a swap, target, tombstones, history and shadows are what log and ledger say, row for row and on both axes of
 * time, with the times of belief that they had; readers saw the old rows or the new ones, never a part; merges of keys that
 * were right went on. Killed at any point, either nothing has happened or all of it.
 * If it breaks: a dashboard sees half a table, or a rebuild loses what was told while it ran.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { compare } from './compare.ts';
import { readFindings, requireArchives, settledNow, waitForThoseOnTheWay } from './findings.ts';
import type { Findings } from './findings.ts';
import { load } from './load.ts';
import { onRecord, readPosition, recordEnd, recordFold } from './rebuild-record.ts';
import { createRebuilt, noteKeys, rebuiltTables } from './rebuilt.ts';
import { repairLedger, spareOrphans } from './repair.ts';
import { swap } from './swap.ts';
import type { Swap } from './swap.ts';
import { openWorkspace } from './workspace.ts';
import type { Examined } from './workspace.ts';
import type { Written } from './write-differences.ts';

export interface RebuildOptions {
  readonly source: Pool;
  /** With three sessions at least; for a swap they may create tables in schema `emend`. */
  readonly store: Pool;
  readonly target: Target;
  /** Whether what differs is exchanged, or only told. */
  readonly swap: boolean;
  readonly reason: string | null;
  /** Where archived files are now, by their SHA-256; of others, where they were written. */
  readonly archives?: ReadonlyMap<string, string>;
  /** The version of emend, for the record. */
  readonly logic: string;
  /** How long a row of the log may be on its way, and somebody else at work on the same keys. */
  readonly graceMs: number;
  /** Differences and gaps to list. */
  readonly limit: number;
  readonly onProgress?: (text: string) => void;
}

export interface Rebuild extends Findings {
  /** Its row in `emend.rebuild`. */
  readonly id: string;
  readonly outcome: 'compared' | 'swapped';
  /** Keys that differ; a swap leaves `leftAlone` of them as they are, for the log cannot decide (see `repairKeys`). */
  readonly keys: number;
  readonly leftAlone: number;
  /** Rows of target, history, tombstones and shadows that the swap exchanged. */
  readonly written: Written;
}

export async function rebuildTarget(options: RebuildOptions): Promise<Rebuild> {
  const { source, store, target, reason, logic, graceMs, onProgress = () => {} } = options;
  return onRecord(store, { target, reason, logic, writtenTo: null }, async (client, begun) => {
    const until = await settledNow(client);
    const position = await readPosition(source, target);
    const archives = options.archives ?? new Map<string, string>();
    const examined: Examined = { client, target, until, keys: null, archives };
    if (options.swap) await createRebuilt(client, target);
    const findings = await foldAndCompare(options, examined);
    await recordFold(client, begun, position, findings);
    const keys = await countKeys(client);
    const result = { ...findings, id: begun.id, keys };
    if (!options.swap) {
      await recordEnd(client, begun, 'compared');
      return { ...result, outcome: 'compared', leftAlone: 0, written: nothing };
    }
    requireArchives(findings);
    await spareOrphans(source, examined);
    const leftAlone = keys - (await countKeys(client));
    if (leftAlone === keys) {
      await recordEnd(client, begun, 'swapped', nothing);
      return { ...result, outcome: 'swapped', leftAlone, written: nothing };
    }
    await noteKeys(examined);
    onProgress(`exchanging the rows of ${countOf(keys - leftAlone, 'key')}, all at once`);
    const written = await swapWhenFree({ source, store, examined, begun }, graceMs);
    return { ...result, outcome: 'swapped', leftAlone, written };
  });
}

const nothing: Written = { takenOut: 0, putIn: 0 };

/** Leaves the differences in the workspace, and for a swap what the log says of their keys in the tables of the rebuild. */
async function foldAndCompare(options: RebuildOptions, examined: Examined): Promise<Findings> {
  const { source, target, graceMs, limit, onProgress = () => {} } = options;
  const bringIn = async (): Promise<number> => {
    await openWorkspace(examined);
    return load(source, examined, (rows) => onProgress(`${countOf(rows, 'row')} of the log read`));
  };
  let claims = await bringIn();
  if (options.swap && (await restoreLedger(options, examined)) > 0) claims = await bringIn();
  await compare(examined, {
    claims,
    ...(options.swap ? { keepIn: rebuiltTables(target).rows } : {}),
    onProgress: (share) => onProgress(`${Math.round(share * 100)} % folded and compared`),
  });
  await waitForThoseOnTheWay(examined, graceMs);
  return readFindings(examined, claims, limit);
}

/** Keys of one transaction, whose buckets are locked meanwhile. */
const keysAtATime = 200;

/** Rows that the ledger lost would be taken out, and merged a second time; they are given back to it before the fold. */
async function restoreLedger(
  { source, store, target }: RebuildOptions,
  { client, archives = new Map() }: Examined,
): Promise<number> {
  const { rows } = await client.query<{ key: string }>(
    `select distinct to_jsonb(s.key)::text as key
     from pg_temp.verify_gap g join pg_temp.verify_stored s on s.id = g.id
     where g.kind = 'not_merged'`,
  );
  const keys = rows.map(({ key }) => JSON.parse(key) as string[]);
  let restored = 0;
  for (let start = 0; start < keys.length; start += keysAtATime) {
    const some = keys.slice(start, start + keysAtATime);
    const columnWise = target.key.map((_, column) => some.map((key) => key[column]!));
    restored += await repairLedger(source, store, target, columnWise, archives);
  }
  return restored;
}

async function countKeys(client: ClientBase): Promise<number> {
  const { rows } = await client.query<{ keys: string }>(
    'select count(distinct key) as keys from pg_temp.verify_difference',
  );
  return Number(rows[0]!.keys);
}

function gaveUp(error: EmendError): EmendError {
  return new EmendError(error.code, error.message, {
    remedy: 'Nothing was exchanged. Run the rebuild again when that has ended.',
    cause: error,
  });
}

/** A backfill that is checked or promoted over one of the keys is waited for: what was folded stays as good as it is. */
async function swapWhenFree(options: Swap, graceMs: number): Promise<Written> {
  const deadline = performance.now() + graceMs;
  for (;;) {
    try {
      return await swap(options);
    } catch (error) {
      if (!isEmendError(error) || !['key_fenced', 'backfill_busy'].includes(error.code)) throw error;
      if (performance.now() > deadline) throw gaveUp(error);
      await sleep(500);
    }
  }
}
