/**
 * Proves that a store is what its log says.
 *
 * Promise: every correction in the log is merged, set aside or dismissed; and target, tombstones, history and shadows are, row
 * for row and on both axes of time, the fold of log and baseline from nothing, given when each correction was told (laws 1 to
 * 5). It changes nothing but temporary tables and the settled time, works while the pipeline runs, and shares no code of the fold with the merge.
 * If it breaks: damage stays unseen, or somebody is sent to look for damage that is none.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { countOf } from '../observe/count-of.ts';
import { withClient } from '../db/transaction.ts';
import { tick } from '../store/clock.ts';
import { compare, readDifferences } from './compare.ts';
import type { Difference } from './compare.ts';
import { forgetClosedGaps, load } from './load.ts';
import { repairKeys } from './repair.ts';
import { openWorkspace } from './workspace.ts';
import type { Examined, KeyTexts } from './workspace.ts';

/** A number that log and ledger do not have alike. */
export interface Gap {
  /**
   * `not_merged`: in the log, and neither merged nor set aside · `not_in_log`: merged, and the log has no such row ·
   * `other_nonce`: the log has another row under this number than the one that was merged · `not_undone`: asked to be taken
   * back, alone or with its backfill, and it is not · `not_held`: of a backfill, and not where its state says: staged, merged or
   * dismissed · `not_promoted`: merged, and its backfill is not promoted.
   */
  readonly kind: 'not_merged' | 'not_in_log' | 'other_nonce' | 'not_undone' | 'not_held' | 'not_promoted';
  readonly _id: string;
}

export interface Verification {
  readonly target: string;
  /** Belief was compared up to this time: what is told later is left out. */
  readonly until: string;
  readonly corrections: number;
  /** How many of each kind, of differences and gaps. Empty: all is well. */
  readonly found: Readonly<Record<string, number>>;
  /** The first of them. */
  readonly differences: readonly Difference[];
  readonly gaps: readonly Gap[];
  /** Log rows that are set aside: neither merged nor discarded, and no difference. Also with a key, of the whole target. */
  readonly setAside: number;
  /** Rows that a repair put back or took out, before what is reported here was found, and the first differences it met. */
  readonly repaired: number;
  readonly repairedFrom: readonly Difference[];
}

export interface VerifyOptions {
  readonly source: Pool;
  readonly store: Pool;
  readonly target: Target;
  /** Null: all. */
  readonly keys: KeyTexts | null;
  readonly repair: boolean;
  /** How long a row of the log may be on its way to the store before it counts as lost. */
  readonly graceMs: number;
  /** Differences and gaps to list. */
  readonly limit: number;
  readonly onProgress?: (text: string) => void;
}

/** Keys that are repaired in one transaction: their buckets are locked meanwhile. */
const keysAtATime = 200;

export async function verifyTarget(options: VerifyOptions): Promise<Verification> {
  const { source, store, target, repair } = options;
  const { verification, keys } = await examine(options);
  if (!repair || keys.length === 0) return verification;
  let repaired = 0;
  for (let start = 0; start < keys.length; start += keysAtATime) {
    const some = keys.slice(start, start + keysAtATime);
    const columnWise = target.key.map((_, column) => some.map((key) => key[column]!));
    repaired += await repairKeys(source, store, target, columnWise);
  }
  const after = await examine(options);
  return { ...after.verification, repaired, repairedFrom: verification.differences };
}

function examine(options: VerifyOptions): Promise<{ verification: Verification; keys: string[][] }> {
  const { source, store, target, keys, graceMs, limit, onProgress = () => {} } = options;
  return withClient(store, async (client) => {
    // without a worker the settled time stands still
    await tick(client);
    const until = await readText(client, 'select settled as text from emend.clock');
    const examined = { client, target, until, keys };
    await openWorkspace(examined);
    const corrections = await load(source, examined, (rows) =>
      onProgress(`${countOf(rows, 'row')} of the log read`),
    );
    await compare(examined, corrections, (share) => onProgress(`${Math.round(share * 100)} % compared`));
    await waitForThoseOnTheWay(examined, graceMs);
    const verification = {
      target: target.name,
      until,
      corrections,
      found: await count(client),
      differences: await readDifferences(examined, limit),
      gaps: await readGaps(client, limit),
      setAside: await countSetAside(client, target.name),
      repaired: 0,
      repairedFrom: [],
    };
    return { verification, keys: await differingKeys(client) };
  });
}

async function readText(client: ClientBase, sql: string): Promise<string> {
  const { rows } = await client.query<{ text: string }>(sql);
  return rows[0]!.text;
}

async function waitForThoseOnTheWay(examined: Examined, graceMs: number): Promise<void> {
  const deadline = performance.now() + graceMs;
  while ((await forgetClosedGaps(examined)) > 0 && performance.now() < deadline) await sleep(100);
}

async function count(client: ClientBase): Promise<Record<string, number>> {
  const { rows } = await client.query<{ kind: string; rows: string }>(
    `select kind, count(*) as rows
     from (select kind from pg_temp.verify_difference union all select kind from pg_temp.verify_gap) as findings
     group by kind
     order by kind`,
  );
  return Object.fromEntries(rows.map(({ kind, rows: number }) => [kind, Number(number)]));
}

async function readGaps(client: ClientBase, limit: number): Promise<Gap[]> {
  const { rows } = await client.query<Gap>(
    `select kind, id as _id from pg_temp.verify_gap order by id limit $1`,
    [limit],
  );
  return rows;
}

async function countSetAside(client: ClientBase, target: string): Promise<number> {
  const { rows } = await client.query<{ rows: string }>(
    `select count(*) as rows from emend.dead_letter_open where target = $1`,
    [target],
  );
  return Number(rows[0]!.rows);
}

async function differingKeys(client: ClientBase): Promise<string[][]> {
  const { rows } = await client.query<{ key: string }>(
    `select distinct to_jsonb(key)::text as key from pg_temp.verify_difference`,
  );
  return rows.map((row) => JSON.parse(row.key) as string[]);
}
