import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { EmendError } from '../errors.ts';
import { archiveSuffix } from './archive-file.ts';
import { readManifest } from './archive-manifest.ts';

/**
 * Where archived files are, by their SHA-256: they may have been moved since they were written.
 *
 * @param given manifests, which are believed; or folders, of which each file is read, so that a lost manifest loses nothing
 * @throws EmendError `archive_unreadable` for what is neither
 */
export async function placesOf(given: readonly string[]): Promise<Map<string, string>> {
  const places = new Map<string, string>();
  for (const path of given) {
    if (await isFolder(path)) {
      await addFiles(path, places);
      continue;
    }
    const { files } = await readManifest(path);
    for (const { sha256, file } of files) places.set(sha256, join(dirname(path), file));
  }
  return places;
}

async function addFiles(folder: string, places: Map<string, string>): Promise<void> {
  try {
    for (const file of await archiveFilesIn(folder)) places.set(await sha256Of(file), file);
  } catch (error) {
    throw new EmendError(
      'archive_unreadable',
      `${folder} cannot be read as a folder of archived files (${(error as Error).message})`,
      { remedy: 'Let this user read it, and the files in it.', cause: error },
    );
  }
}

/** Archived files in a folder, and in folders in it, each as a path. */
export async function archiveFilesIn(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  return names
    .filter((name) => name.endsWith(archiveSuffix))
    .toSorted()
    .map((name) => join(folder, name));
}

export async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}
