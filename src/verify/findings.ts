import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { EmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { tick } from '../store/clock.ts';
import { readDifferences } from './compare.ts';
import type { Difference } from './compare.ts';
import { forgetClosedGaps } from './load.ts';
import type { Examined } from './workspace.ts';

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

/** A file of archived rows that could not be read. */
export interface UnreadFile {
  /** As it was written. */
  readonly file: string;
  readonly problem: string;
  readonly rows: number;
}

/** What an examination found. */
export interface Findings {
  readonly target: string;
  /** Belief was compared up to this time: what is told later is left out. */
  readonly until: string;
  readonly corrections: number;
  /** How many of each kind, of differences and gaps. Empty: all is well. */
  readonly found: Readonly<Record<string, number>>;
  /** The first of them. */
  readonly differences: readonly Difference[];
  readonly gaps: readonly Gap[];
  /** Files of archived rows that cannot be read: their rows are taken for what the store has of them. */
  readonly unread: readonly UnreadFile[];
  /** Log rows that are set aside: neither merged nor discarded, and no difference. Also with a key, of the whole target. */
  readonly setAside: number;
}

/** The settled time, brought up to now: without a worker it stands still. */
export async function settledNow(client: ClientBase): Promise<string> {
  await tick(client);
  const { rows } = await client.query<{ settled: string }>('select settled::text from emend.clock');
  return rows[0]!.settled;
}

/** A row of the log may be on its way to the store for so long before it counts as lost. */
export async function waitForThoseOnTheWay(examined: Examined, graceMs: number): Promise<void> {
  const deadline = performance.now() + graceMs;
  while ((await forgetClosedGaps(examined)) > 0 && performance.now() < deadline) await sleep(100);
}

/**
 * A correction of which neither log nor store has a row any more would be left out of the fold, and what it had superseded would
 * stand again: to look is safe, to write is not.
 *
 * @throws EmendError `archive_unreadable`
 */
export function requireArchives({ target, unread }: Pick<Findings, 'target' | 'unread'>): void {
  const [file] = unread;
  if (!file) return;
  throw new EmendError(
    'archive_unreadable',
    `nothing of ${target} was changed, since ${countOf(unread.length, 'file')} of archived rows cannot be read; first: ${file.problem}`,
    {
      remedy: 'Bring the files back, or say where they are, by their folder or manifest: --archive.',
    },
  );
}

/** Reads what stands in the workspace; the first `limit` of each are listed. */
export async function readFindings(
  examined: Examined,
  corrections: number,
  limit: number,
): Promise<Findings> {
  const { client, target, until } = examined;
  return {
    target: target.name,
    until,
    corrections,
    found: await count(client),
    differences: await readDifferences(examined, limit),
    gaps: await readGaps(client, limit),
    unread: await readUnread(client),
    setAside: await countSetAside(client, target.name),
  };
}

async function count(client: ClientBase): Promise<Record<string, number>> {
  const { rows } = await client.query<{ kind: string; rows: string }>(
    `select kind, count(*) as rows
     from (
       select kind from pg_temp.verify_difference
       union all
       select kind from pg_temp.verify_gap
       union all
       select 'archive_unreadable' from pg_temp.verify_unread
     ) as findings
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

export async function readUnread(client: ClientBase): Promise<UnreadFile[]> {
  const { rows } = await client.query<Record<keyof UnreadFile, string>>(
    `select u.file, u.problem, u.rows from pg_temp.verify_unread u order by u.file`,
  );
  return rows.map((row) => ({ ...row, rows: Number(row.rows) }));
}

async function countSetAside(client: ClientBase, target: string): Promise<number> {
  const { rows } = await client.query<{ rows: string }>(
    `select count(*) as rows from emend.dead_letter_open where target = $1`,
    [target],
  );
  return Number(rows[0]!.rows);
}
