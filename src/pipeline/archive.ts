/**
 * Moves rows that are older than a time out of the logs and into files.
 *
 * Promise: killed anywhere, a row is in the log, or in a file that is on record, on disk, and was read again. What is moved stays known by
 * its number, so that nothing that compares log and ledger takes it for lost; `verify` and `rebuild` read the files, and
 * `emend archive restore` puts the rows back as they were.
 * If it breaks: the only record of what was told is gone (laws 4 and 5).
 */
import { mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { ClientBase, Pool, PoolClient } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { identList, qualified } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withClient, withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { archiveSuffix, examineArchiveFile, syncFolder, writeArchiveFile } from '../log/archive-file.ts';
import type { FileFigures } from '../log/archive-file.ts';
import { addToManifest, readOwnManifest } from '../log/archive-manifest.ts';
import type { ManifestHead } from '../log/archive-manifest.ts';
import { moveToArchive } from '../log/archive-records.ts';
import { mendManifest } from '../log/mend-manifest.ts';
import { emendVersion } from '../observe/version.ts';
import { archivableIds, noteArchive } from '../store/archivable.ts';
import type { Candidate } from '../store/archivable.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';

export interface ArchiveRequest {
  /** Null: all targets. */
  readonly target: string | null;
  /** Rows that were recorded before this time, as Postgres reads it; a date is its midnight in UTC. */
  readonly before: string;
  /** A folder; each target has its own in it. */
  readonly to: string;
  /** Only says what would be moved. */
  readonly dryRun?: boolean;
  /** Default 100,000. */
  readonly rowsPerFile?: number;
  readonly onProgress?: (target: string, rows: number) => void;
}

export interface Archived {
  readonly target: string;
  /** Rows that were moved, or with `dryRun` would be. */
  readonly rows: number;
  readonly files: readonly string[];
  /** Null where nothing was moved. */
  readonly manifest: string | null;
  /** Older rows that stay: not merged yet, set aside, diverged, or of a backfill that has not come to its end. */
  readonly kept: number;
}

const defaultRowsPerFile = 100_000;
/** Rows are looked up by their numbers. */
const settings = { enable_seqscan: 'off', jit: 'off' };
/** Log rows that are looked up in the store at a time. */
const pageRows = 10_000;

/**
 * @throws EmendError `bad_arguments` for a time that cannot be read or is to come, and for a folder of another install;
 *   `archive_busy` while another one runs; `permission_missing`
 */
export async function archive(config: ResolvedConfig, request: ArchiveRequest): Promise<Archived[]> {
  const { target } = request;
  const names =
    target === null ? config.targets.map(({ name }) => name) : [findTarget(config.targets, target).name];
  return withServers(config, { role: 'archive', max: 2, settings }, async ({ source, store }) => {
    const install = await requireInstall(store);
    const before = await readTime(source, request.before);
    const works = names.map((name) => ({
      source,
      store,
      install,
      target: name,
      request: { ...request, before },
    }));
    // of all targets first: what is refused is refused before anything is moved
    if (request.dryRun !== true)
      for (const work of works) await readOwnManifest(resolve(request.to, work.target), headOf(work));
    const archived: Archived[] = [];
    for (const work of works) archived.push(await archiveTarget(work));
    return archived;
  }).catch((error: unknown) => {
    throw sqlState(error) === '42501' ? mayNot(error) : error;
  });
}

interface Work {
  readonly source: Pool;
  readonly store: Pool;
  readonly install: string;
  readonly target: string;
  readonly request: ArchiveRequest;
}

function archiveTarget(work: Work): Promise<Archived> {
  const { store, target, request } = work;
  return withClient(work.source, async (client) => {
    await takeTurn(client, target);
    if (request.dryRun !== true)
      await mendManifest(
        client,
        resolve(request.to, target),
        headOf(work),
        await readColumns(client, target),
      );
    const files: string[] = [];
    let [rows, kept] = [0, 0];
    let manifest: string | null = null;
    let chosen: string[] = [];
    const rowsPerFile = request.rowsPerFile ?? defaultRowsPerFile;
    const move = async (ids: readonly string[]): Promise<void> => {
      if (ids.length === 0) return;
      if (request.dryRun !== true) {
        const moved = await moveRows(work, client, ids);
        files.push(moved.file);
        manifest = moved.manifest;
      }
      rows += ids.length;
      request.onProgress?.(target, rows);
    };
    for await (const page of olderRows(client, target, request.before)) {
      const ids = await archivableIds(store, target, page);
      kept += page.length - ids.length;
      chosen.push(...ids);
      while (chosen.length >= rowsPerFile) {
        await move(chosen.slice(0, rowsPerFile));
        chosen = chosen.slice(rowsPerFile);
      }
    }
    await move(chosen);
    await client.query(`select pg_advisory_unlock_all()`);
    return { target, rows, files, manifest, kept };
  });
}

async function* olderRows(client: ClientBase, target: string, before: string): AsyncGenerator<Candidate[]> {
  for (let after = '0'; ;) {
    const { rows }: { rows: Candidate[] } = await client.query(
      `select _id as id, _nonce as nonce, _backfill as backfill
       from ${qualified('corrections', target)}
       where _id > $1::bigint and _recorded_at < $2::timestamptz
       order by _id
       limit ${pageRows}`,
      [after, before],
    );
    if (rows.length > 0) yield rows;
    if (rows.length < pageRows) return;
    after = rows.at(-1)!.id;
  }
}

/** File, its manifest, and what both say read again; only then record and delete, as one. */
async function moveRows(
  work: Work,
  client: PoolClient,
  ids: readonly string[],
): Promise<{ file: string; manifest: string }> {
  const { source, store, target, request } = work;
  const folder = await makeFolder(resolve(request.to), target);
  const name = `${ids[0]}-${ids.at(-1)}${archiveSuffix}`;
  const file = join(folder, name);
  const columns = await readColumns(client, target);
  await writeArchiveFile(client, selectRows(target, columns, ids), file);
  const figures = await examineArchiveFile(file);
  requireAll(file, figures, ids);
  const [times] = await readTimes(client, target, ids);
  const manifest = await addToManifest(folder, headOf(work), [
    {
      file: name,
      columns,
      rows: figures.rows,
      first_id: ids[0]!,
      last_id: ids.at(-1)!,
      ...times!,
      bytes: figures.bytes,
      sha256: figures.sha256,
      nonces: String(figures.nonces),
      digest: String(figures.digest),
    },
  ]);
  // before the rows go: a store that does not know the file is older than it
  await noteArchive(store, { sha256: figures.sha256, target, file, rows: figures.rows }, 0);
  const written = { figures, host: hostname(), file, before: request.before };
  await withTransaction(source, (transaction) => moveToArchive(transaction, target, written));
  return { file, manifest };
}

function headOf({ install, target }: Work): ManifestHead {
  return { format: 'emend archive 1', emend: emendVersion(), postgres: '15 or later', install, target };
}

async function makeFolder(to: string, target: string): Promise<string> {
  const folder = join(to, target);
  try {
    await mkdir(folder, { recursive: true });
    await syncFolder(to);
    await syncFolder(dirname(to));
  } catch (error) {
    throw new EmendError('bad_arguments', `${folder} cannot be made (${(error as { code?: string }).code})`, {
      remedy: 'Give a folder that can be written to (--to).',
      cause: error,
    });
  }
  return folder;
}

/** COPY takes no parameters; the numbers are our own. */
function selectRows(target: string, columns: readonly { name: string }[], ids: readonly string[]): string {
  return `
    select ${identList(columns.map(({ name }) => name))}
    from ${qualified('corrections', target)}
    where _id = any('{${ids.map((id) => BigInt(id)).join(',')}}'::bigint[])
    order by _id`;
}

async function readColumns(client: ClientBase, target: string): Promise<{ name: string; type: string }[]> {
  const { rows } = await client.query<{ name: string; type: string }>(
    `select a.attname as name, format_type(a.atttypid, a.atttypmod) as type
     from pg_attribute a
     where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
     order by a.attnum`,
    [qualified('corrections', target)],
  );
  return rows;
}

async function readTimes(client: ClientBase, target: string, ids: readonly string[]) {
  const { rows } = await client.query<{ first_recorded_at: string; last_recorded_at: string }>(
    `select min(_recorded_at) as first_recorded_at, max(_recorded_at) as last_recorded_at
     from ${qualified('corrections', target)}
     where _id = any($1::bigint[])`,
    [ids],
  );
  return rows;
}

function requireAll(file: string, { ids }: FileFigures, wanted: readonly string[]): void {
  const at = wanted.findIndex((id, place) => ids[place] !== BigInt(id));
  if (at === -1 && ids.length === wanted.length) return;
  throw new EmendError(
    'invariant_broken',
    `${file} was written, and does not hold the rows that it was to (_id ${wanted[at] ?? ids[wanted.length]})`,
    {
      remedy: 'Nothing was taken out of the log. See whether the disk is well, and run it again.',
    },
  );
}

/** One at a time: two would choose the same rows. */
async function takeTurn(client: ClientBase, target: string): Promise<void> {
  const { rows } = await client.query<{ taken: string }>(
    `select pg_try_advisory_lock(hashtextextended('emend archive ' || $1, 0))::text as taken`,
    [target],
  );
  if (rows[0]!.taken === 'true') return;
  throw new EmendError('archive_busy', `the log of ${target} is being archived by another process`, {
    remedy: 'Wait for it, or end it: what it has moved stays moved.',
  });
}

async function readTime(source: Pool, text: string): Promise<string> {
  const remedy = 'Give a time that is past (--before), such as 2026-01-01.';
  const { rows } = await source
    .query<{ time: string; past: string }>(
      `select t.time::text as time, (isfinite(t.time) and t.time <= clock_timestamp())::text as past from (select $1::text::timestamptz as time) as t`,
      [text],
    )
    .catch((error: unknown) => {
      if (!sqlState(error)?.startsWith('22')) throw error;
      throw new EmendError('bad_arguments', `${text} is no time`, { remedy, cause: error });
    });
  if (rows[0]!.past === 'true') return rows[0]!.time;
  throw new EmendError('bad_arguments', `${text} is not past`, { remedy });
}

function mayNot(cause: unknown): EmendError {
  return new EmendError('permission_missing', `this role may not archive: ${(cause as Error).message}`, {
    remedy:
      'Run it as the owner of schema corrections in the source, with insert on emend.archive in the store.',
    cause,
  });
}
