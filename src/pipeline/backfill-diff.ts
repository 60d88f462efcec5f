import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { EmendError } from '../errors.ts';
import { openStore } from './connections.ts';
import { requireInstall } from './install.ts';

/** An answer that promoting changes: of a key, over a part of valid time. Null: there is none. */
export interface BackfillChange {
  readonly target: string;
  readonly key: Readonly<Record<string, string | null>>;
  /** Null for facts. */
  readonly validFrom: string | null;
  readonly validTo: string | null;
  readonly old: Readonly<Record<string, string | null>> | null;
  readonly new: Readonly<Record<string, string | null>> | null;
}

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
  /** How many were written to the file. */
  readonly exported: number | null;
}

export interface DiffOptions {
  /** Changes to list at most. */
  readonly limit: number;
  /** A file that gets all of them, as CSV or NDJSON by its ending. */
  readonly exportTo?: string | undefined;
}

/**
 * What promoting a backfill would change, as its check has written it down.
 *
 * @throws EmendError `backfill_refused` while it is not checked
 */
export async function diffBackfill(
  config: ResolvedConfig,
  name: string,
  options: DiffOptions,
): Promise<BackfillDiff> {
  const { limit, exportTo } = options;
  const store = await openStore(config, { role: 'backfill', max: 1 });
  try {
    await requireInstall(store);
    await requireDiff(store, name);
    const summary = await readSummary(store, name);
    if (exportTo === undefined) {
      const changes: BackfillChange[] = [];
      for await (const page of readChanges(store, name, limit)) changes.push(...page);
      return { backfill: name, summary, changes, exported: null };
    }
    return { backfill: name, summary, changes: [], exported: await exportChanges(store, name, exportTo) };
  } finally {
    await store.end();
  }
}

async function requireDiff(store: Pool, name: string): Promise<void> {
  const { rows } = await store.query<{ state: string }>(
    `select b.state from emend.backfill b where b.name = $1`,
    [name],
  );
  const state = rows[0]?.state;
  if (state !== undefined && !['open', 'sealed', 'staged', 'abandoned'].includes(state)) return;
  throw new EmendError(
    'backfill_refused',
    state === undefined
      ? `the store has no backfill ${name}`
      : `backfill ${name} is ${state}: it has no diff`,
    { remedy: 'The diff is made by the check, when all that was sealed is staged: see emend backfill show.' },
  );
}

async function readSummary(store: Pool, name: string): Promise<DiffSummary[]> {
  const { rows } = await store.query<{ summary: string }>(
    `with change as (select c.target, c.key, c.old, c.new from emend.backfill_change c where c.backfill = $1),
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
       where c.backfill = $1
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

async function exportChanges(store: Pool, name: string, path: string): Promise<number> {
  const isCsv = path.endsWith('.csv');
  if (!isCsv && !/\.(ndjson|jsonl)$/.test(path)) {
    throw new EmendError('bad_arguments', `${path} is neither NDJSON nor CSV by its name`, {
      remedy: 'Name it *.ndjson or *.csv.',
    });
  }
  const file = await openExport(path);
  let exported = 0;
  await pipeline(async function* () {
    if (isCsv) yield 'target,key,valid_from,valid_to,old,new\n';
    for await (const page of readChanges(store, name, null)) {
      exported += page.length;
      yield page.map((change) => (isCsv ? csvLine(change) : `${JSON.stringify(change)}\n`)).join('');
    }
  }, file.createWriteStream());
  return exported;
}

function openExport(path: string): Promise<FileHandle> {
  return open(path, 'w').catch((error: NodeJS.ErrnoException) => {
    throw new EmendError('bad_arguments', `${path} cannot be written: ${error.code ?? error.message}`, {
      remedy: 'Correct the path: its folder has to be there, and to be writable.',
      cause: error,
    });
  });
}

function csvLine({ target, key, validFrom, validTo, old, new: next }: BackfillChange): string {
  const json = (value: unknown): string => (value === null ? '' : JSON.stringify(value));
  const fields = [target, json(key), validFrom ?? '', validTo ?? '', json(old), json(next)];
  return `${fields.map((field) => (/[",\n\r]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(',')}\n`;
}
