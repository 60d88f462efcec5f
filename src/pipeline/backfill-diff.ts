import type { Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { EmendError } from '../errors.ts';
import { withClient } from '../db/transaction.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import type { BackfillChange } from './backfill-change.ts';
import { openStore } from './connections.ts';
import { comparePlan } from './diff-plan.ts';
import type { PlanComparison } from './diff-plan.ts';
import { readChangedWindows } from './diff-windows.ts';
import type { ChangedWindows, WindowOptions } from './diff-windows.ts';
import { exportRows } from './export-rows.ts';
import type { CsvForm } from './export-rows.ts';
import { requireInstall } from './install.ts';

export interface DiffSummary {
  readonly target: string;
  readonly keys: number;
  /** Parts with an answer where there was none, with none where there was one, with another one. */
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  /** Column -> parts in which its value changes. */
  readonly columns: Readonly<Record<string, number>>;
}

export interface BackfillDiff {
  readonly backfill: string;
  readonly summary: readonly DiffSummary[];
  /** The first of them, or none where they were exported. */
  readonly changes: readonly BackfillChange[];
  /** The windows of valid time that they are in, where these were asked for, instead of the changes themselves. */
  readonly windows: readonly ChangedWindows[] | null;
  /** How many were written to the file. */
  readonly exported: number | null;
  /** What the promote did against what the check had planned; null before it is promoted. */
  readonly plan: PlanComparison | null;
}

export interface DiffOptions {
  /** Changes, windows, and differences from the plan to list at most. */
  readonly limit: number;
  /** A file that gets all changes (or windows), as CSV or NDJSON by its ending. */
  readonly exportTo?: string | undefined;
  readonly windows?: WindowOptions | undefined;
}

/**
 * What promoting a backfill would change, as its check has written it down; once it is promoted, what it did.
 *
 * @throws EmendError `backfill_refused` while it is not checked; `bad_arguments` for windows that cannot be cut
 */
export async function diffBackfill(
  config: ResolvedConfig,
  name: string,
  { limit, exportTo, windows }: DiffOptions,
): Promise<BackfillDiff> {
  const store = await openStore(config, { role: 'backfill', max: 1 });
  try {
    await requireInstall(store);
    const { state, targets: names } = await requireDiff(store, name);
    const declared = config.targets.filter((target) => names.includes(target.name));
    const targets = await withClient(store, (client) => resolveTargets(client, declared));
    const isMade = state === 'promoted' || state === 'reverted';
    const found = {
      backfill: name,
      summary: await readSummary(store, name),
      plan: isMade ? await comparePlan(store, name, targets, limit) : null,
      changes: [],
      windows: null,
      exported: null,
    };
    if (windows) {
      const read = readChangedWindows(store, name, targets, windows);
      if (exportTo !== undefined)
        return { ...found, windows: [], exported: await exportRows(exportTo, read, csvOfWindows) };
      return { ...found, windows: (await all(read)).slice(0, limit) };
    }
    if (exportTo !== undefined)
      return { ...found, exported: await exportRows(exportTo, readChanges(store, name, null), csv) };
    return { ...found, changes: await all(readChanges(store, name, limit)) };
  } finally {
    await store.end();
  }
}

async function all<T>(pages: AsyncIterable<readonly T[]>): Promise<T[]> {
  const rows: T[] = [];
  for await (const page of pages) rows.push(...page);
  return rows;
}

interface Diffed {
  readonly state: string;
  readonly targets: readonly string[];
}

async function requireDiff(store: Pool, name: string): Promise<Diffed> {
  const { rows } = await store.query<{ diffed: string }>(
    `select jsonb_build_object('state', b.state, 'targets', b.targets)::text as diffed from emend.backfill b where b.name = $1`,
    [name],
  );
  const diffed = rows[0] && (JSON.parse(rows[0].diffed) as Diffed);
  if (diffed && !['open', 'sealed', 'staged', 'abandoned'].includes(diffed.state)) return diffed;
  throw new EmendError(
    'backfill_refused',
    diffed ? `backfill ${name} is ${diffed.state}: it has no diff` : `the store has no backfill ${name}`,
    { remedy: 'The diff is made by the check, when all that was sealed is staged: see emend backfill show.' },
  );
}

async function readSummary(store: Pool, name: string): Promise<DiffSummary[]> {
  const { rows } = await store.query<{ summary: string }>(
    `with change as (select c.target, c.key, c.old, c.new from emend.backfill_change c where c.backfill = $1 and c.side is distinct from 'planned'),
     by_column as (
       select c.target, v.name, count(*) as changes
       from change c
       cross join lateral jsonb_object_keys(c.new) as v (name)
       where c.old -> v.name is distinct from c.new -> v.name and c.old is not null
       group by c.target, v.name
     )
     select jsonb_build_object(
       'target', c.target, 'keys', count(distinct c.key),
       'added', count(*) filter (where c.old is null),
       'removed', count(*) filter (where c.new is null),
       'changed', count(*) filter (where c.old is not null and c.new is not null),
       'columns', (select coalesce(jsonb_object_agg(b.name, b.changes), '{}') from by_column b where b.target = c.target)
     )::text as summary
     from change c
     group by c.target
     order by c.target`,
    [name],
  );
  return rows.map((row) => JSON.parse(row.summary) as DiffSummary);
}

const changesAtATime = 5_000;

/** In the order of targets and keys, through a cursor: a diff may have millions. */
async function* readChanges(
  store: Pool,
  name: string,
  limit: number | null,
): AsyncGenerator<BackfillChange[]> {
  const client = await store.connect();
  try {
    await client.query('begin read only');
    await client.query(
      `declare change cursor for
       select jsonb_build_object(
         'target', c.target, 'key', c.key, 'validFrom', c.valid_from, 'validTo', c.valid_to, 'old', c.old, 'new', c.new
       )::text as change
       from emend.backfill_change c
       where c.backfill = $1 and c.side is distinct from 'planned'
       order by c.target, c.key, c.valid_from
       limit $2`,
      [name, limit],
    );
    for (;;) {
      const { rows } = await client.query<{ change: string }>(`fetch ${changesAtATime} from change`);
      if (rows.length === 0) return;
      yield rows.map((row) => JSON.parse(row.change) as BackfillChange);
    }
  } finally {
    await client.query('rollback').finally(() => client.release());
  }
}

const csv: CsvForm<BackfillChange> = {
  heading: ['target', 'key', 'valid_from', 'valid_to', 'old', 'new'],
  fields: (change) => [change.target, change.key, change.validFrom, change.validTo, change.old, change.new],
};

const csvOfWindows: CsvForm<ChangedWindows> = {
  heading: ['target', 'from', 'to', 'windows', 'keys', 'parts'],
  fields: ({ target, from, to, windows, keys, parts }) => [target, from, to, windows, keys, parts],
};
