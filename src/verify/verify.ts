/**
 * Proves that a store is what its log says.
 *
 * Promise: every correction in the log is merged, set aside or dismissed; and target, tombstones, history and shadows are, row
 * for row and on both axes of time, the fold of log and baseline from nothing, given when each correction was told (laws 1 to
 * 5). It changes nothing but temporary tables and the settled time, works while the pipeline runs, and shares no code of the fold with the merge.
 * If it breaks: damage stays unseen, or somebody is sent to look for damage that is none.
 */
import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { countOf } from '../observe/count-of.ts';
import { withClient } from '../db/transaction.ts';
import { compare } from './compare.ts';
import type { Difference } from './compare.ts';
import { readFindings, requireArchives, settledNow, waitForThoseOnTheWay } from './findings.ts';
import type { Findings } from './findings.ts';
import { load } from './load.ts';
import { repairKeys } from './repair.ts';
import { openWorkspace } from './workspace.ts';
import type { KeyTexts } from './workspace.ts';

export interface Verification extends Findings {
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
  /** Where archived files are now, by their SHA-256; of others, where they were written. */
  readonly archives?: ReadonlyMap<string, string>;
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
  requireArchives(verification);
  let repaired = 0;
  for (let start = 0; start < keys.length; start += keysAtATime) {
    const some = keys.slice(start, start + keysAtATime);
    const columnWise = target.key.map((_, column) => some.map((key) => key[column]!));
    repaired += await repairKeys(source, store, target, columnWise, options.archives);
  }
  const after = await examine(options);
  return { ...after.verification, repaired, repairedFrom: verification.differences };
}

function examine(options: VerifyOptions): Promise<{ verification: Verification; keys: string[][] }> {
  const {
    source,
    store,
    target,
    keys,
    graceMs,
    limit,
    archives = new Map(),
    onProgress = () => {},
  } = options;
  return withClient(store, async (client) => {
    const examined = { client, target, until: await settledNow(client), keys, archives };
    await openWorkspace(examined);
    const claims = await load(source, examined, (rows) =>
      onProgress(`${countOf(rows, 'row')} of the log read`),
    );
    await compare(examined, {
      claims,
      onProgress: (share) => onProgress(`${Math.round(share * 100)} % compared`),
    });
    await waitForThoseOnTheWay(examined, graceMs);
    const findings = await readFindings(examined, claims, limit);
    const verification = { ...findings, repaired: 0, repairedFrom: [] };
    return { verification, keys: await differingKeys(client) };
  });
}

async function differingKeys(client: ClientBase): Promise<string[][]> {
  const { rows } = await client.query<{ key: string }>(
    `select distinct to_jsonb(key)::text as key from pg_temp.verify_difference`,
  );
  return rows.map((row) => JSON.parse(row.key) as string[]);
}
