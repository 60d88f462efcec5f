import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { ClientBase } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { identList } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError, isEmendError } from '../errors.ts';
import type { Problem } from '../errors.ts';
import { examineArchiveFile, requireSame } from '../log/archive-file.ts';
import { archiveFilesIn, isFolder, placesOf } from '../log/archive-places.ts';
import { readArchivedFiles, readArchivedIds } from '../log/archive-records.ts';
import type { ArchivedFile } from '../log/archive-records.ts';
import { logTable } from '../log/log-columns.ts';
import { countOf } from '../observe/count-of.ts';
import { countLacking } from '../store/archivable.ts';
import { askForSweep } from '../sweep/marks.ts';
import { withServers } from './connections.ts';
import { requireInstall } from './install.ts';

export interface Restored {
  readonly files: readonly { readonly target: string; readonly file: string; readonly rows: number }[];
  /** Rows whose effect the store lacks: the sweep puts them on the queue. */
  readonly lacking: number;
}

/**
 * Puts the rows of archived files back into the log, as they were: numbers, nonces, transactions, columns. All files are compared
 * with their SHA-256 first. Then a file at a time, in one transaction each; files whose rows are in the log are passed over, so
 * that a run that was killed is run again.
 *
 * @param given manifests; or folders, whose files are known by their SHA-256
 * @throws EmendError `archive_unreadable`, with each damaged file, and nothing was put back; `restore_incomplete` when it ends after
 *   some files were
 */
export async function restoreArchive(config: ResolvedConfig, given: readonly string[]): Promise<Restored> {
  const places = await placesOf(given);
  return withServers(config, { role: 'archive', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    const names = config.targets.map(({ name }) => name);
    const chosen = await choose(await readArchivedFiles(source, names), given, places);
    await requireAllSame(chosen);
    const restored: Restored['files'][number][] = [];
    let lacking = 0;
    try {
      for (const { file, path } of chosen) {
        const missing = await countLacking(store, file, await readArchivedIds(source, file.number));
        await withTransaction(source, (client) => putBack(client, file, path));
        restored.push({ target: file.target, file: path, rows: file.rows });
        lacking += missing;
        if (missing > 0) await askForSweep(store, { all: true });
        await store.query(`delete from emend.archive where sha256 = $1`, [file.sha256]);
      }
    } catch (error) {
      throw restored.length === 0 ? error : incomplete(restored, chosen.slice(restored.length), error);
    }
    return { files: restored, lacking };
  });
}

/** A file on record, and where it is now. */
interface Chosen {
  readonly file: ArchivedFile;
  readonly path: string;
}

/** By their SHA-256; a file of a folder that has only the name of one on record is chosen too, for it is damaged. */
async function choose(
  files: readonly ArchivedFile[],
  given: readonly string[],
  places: ReadonlyMap<string, string>,
): Promise<Chosen[]> {
  const folders = await filterFolders(given);
  const there = (await Promise.all(folders.map(archiveFilesIn))).flat();
  const named = new Map(there.map((path) => [basename(path), path]));
  return files.flatMap((file) => {
    const path = places.get(file.sha256) ?? named.get(basename(file.file));
    return path === undefined ? [] : [{ file, path }];
  });
}

async function filterFolders(given: readonly string[]): Promise<string[]> {
  const folders: string[] = [];
  for (const path of given) if (await isFolder(path)) folders.push(path);
  return folders;
}

async function requireAllSame(chosen: readonly Chosen[]): Promise<void> {
  const damaged: Problem[] = [];
  for (const { file, path } of chosen) {
    try {
      await requireSame(path, file.sha256);
    } catch (error) {
      if (!isEmendError(error)) throw error;
      damaged.push({
        path: file.target,
        problem: error.message,
        remedy: `${countOf(file.rows, 'row')} of it`,
      });
    }
  }
  if (damaged.length === 0) return;
  throw new EmendError('archive_unreadable', `nothing was put back: ${damaged[0]!.problem}`, {
    remedy:
      'Bring it back from a copy, or give the folder (or manifest) of a copy. To put the others back without it, move it elsewhere, and give the folder it was in.',
    problems: damaged.length === 1 ? [] : damaged,
  });
}

function incomplete(restored: Restored['files'], left: readonly Chosen[], cause: unknown): EmendError {
  const back = restored.map(({ target, file, rows }) => `${target}: ${countOf(rows, 'row')} of ${file}`);
  const rest = left.length === 0 ? 'and then it failed' : `${left.length} not, from ${left[0]!.path} on`;
  return new EmendError(
    'restore_incomplete',
    `${countOf(restored.length, 'file')} put back (${back.join('; ')}), ${rest}: ${(cause as Error).message}`,
    { remedy: 'See to that, and run it again: what is in the log is passed over.', cause },
  );
}

async function putBack(client: ClientBase, file: ArchivedFile, path: string): Promise<void> {
  const marked = await client.query(
    `update corrections._archive
     set restored_at = clock_timestamp(), restored_by = current_user, restored_xid = pg_current_xact_id()
     where number = $1::bigint and restored_at is null`,
    [file.number],
  );
  if (marked.rowCount !== 1) return;
  const { columns, ids, sha256 } = await examineArchiveFile(path);
  if (sha256 !== file.sha256) await requireSame(path, file.sha256);
  const log = logTable({ name: file.target });
  await pipeline(
    createReadStream(path),
    createGunzip(),
    client.query(copyFrom(`copy ${log} (${identList(columns)}) from stdin with (format text, header match)`)),
  );
  const { rows } = await client.query<{ rows: string; nonces: string }>(
    `select count(*) as rows, bit_xor(l._nonce) as nonces from ${log} l where l._id = any($1::bigint[])`,
    [ids.map(String)],
  );
  if (Number(rows[0]!.rows) === file.rows && rows[0]!.nonces === file.nonces) return;
  throw new EmendError('invariant_broken', `${path} does not hold the rows that are on record for it`, {
    remedy: 'Nothing of it was put back. Say so to the maintainers, with the file at hand.',
  });
}
