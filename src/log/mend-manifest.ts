import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { ClientBase } from 'pg';
import { isEmendError } from '../errors.ts';
import { examineArchiveFile, isThere, requireSame } from './archive-file.ts';
import { addToManifest, readManifest } from './archive-manifest.ts';
import type { ManifestFile, ManifestHead } from './archive-manifest.ts';
import { readArchivedFiles } from './archive-records.ts';
import type { ArchivedFile } from './archive-records.ts';

type Column = ManifestFile['columns'][number];

/**
 * Writes files that are on record in this folder, and not in its manifest, into it: it was lost, or is that of an older copy. Files
 * that are not there any more are left out; who moved them moved their manifest.
 *
 * @param columns of the log; a column that it has no longer is written down as text, which reads every value
 * @throws EmendError `archive_unreadable` for such a file that is damaged, and for a manifest that cannot be read
 */
export async function mendManifest(
  source: ClientBase,
  folder: string,
  head: ManifestHead,
  columns: readonly Column[],
): Promise<void> {
  const recorded = (await readArchivedFiles(source, [head.target])).filter(
    ({ host, file }) => host === hostname() && dirname(file) === folder,
  );
  const known = await listedIn(folder);
  const lost: ManifestFile[] = [];
  for (const file of recorded) {
    if (known.has(file.sha256) || !(await isThere(file.file))) continue;
    lost.push(await describe(file, columns));
  }
  if (lost.length > 0) await addToManifest(folder, head, lost);
}

async function describe(recorded: ArchivedFile, columns: readonly Column[]): Promise<ManifestFile> {
  await requireSame(recorded.file, recorded.sha256);
  const figures = await examineArchiveFile(recorded.file);
  return {
    file: basename(recorded.file),
    columns: figures.columns.map(
      (name) => columns.find((each) => each.name === name) ?? { name, type: 'text' },
    ),
    rows: figures.rows,
    first_id: recorded.firstId,
    last_id: recorded.lastId,
    first_recorded_at: recorded.firstRecordedAt,
    last_recorded_at: recorded.lastRecordedAt,
    bytes: figures.bytes,
    sha256: figures.sha256,
    nonces: String(figures.nonces),
    digest: String(figures.digest),
  };
}

/** Of these files, those that the manifest beside them does not list; a manifest that cannot be read lists none. */
export async function withoutManifest(
  files: readonly { readonly path: string; readonly sha256: string }[],
): Promise<string[]> {
  const listed = new Map<string, ReadonlySet<string>>();
  for (const folder of new Set(files.map(({ path }) => dirname(path)))) {
    const found = await listedIn(folder).catch((error: unknown) => {
      if (isEmendError(error)) return new Set<string>();
      throw error;
    });
    listed.set(folder, found);
  }
  return files.filter(({ path, sha256 }) => !listed.get(dirname(path))!.has(sha256)).map(({ path }) => path);
}

async function listedIn(folder: string): Promise<Set<string>> {
  const path = join(folder, 'manifest.json');
  if (!(await isThere(path))) return new Set();
  return new Set((await readManifest(path)).files.map(({ sha256 }) => sha256));
}
