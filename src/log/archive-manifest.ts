import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { EmendError } from '../errors.ts';
import { syncFolder } from './archive-file.ts';

/** What the files of one folder are: all that is needed to read them without emend. */
export interface Manifest {
  readonly format: 'emend archive 1';
  readonly emend: string;
  /** `copy … from` with `header match` reads them. */
  readonly postgres: '15 or later';
  readonly install: string;
  readonly target: string;
  readonly files: readonly ManifestFile[];
}

export interface ManifestFile {
  /** Beside the manifest; gzip of the text format of COPY, with a header line. */
  readonly file: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: number;
  readonly first_id: string;
  readonly last_id: string;
  readonly first_recorded_at: string;
  readonly last_recorded_at: string;
  readonly bytes: number;
  /** Of the packed file, in hex. */
  readonly sha256: string;
  /** xor of the `_nonce`s, and sum of 8 bytes of the md5 of each row's texts; see docs/operations.md. */
  readonly nonces: string;
  readonly digest: string;
}

/** What a folder is the archive of. */
export type ManifestHead = Omit<Manifest, 'files'>;

/**
 * Writes files down in the manifest of their folder, in place of those of the same names. On disk when it returns; the old manifest is whole
 * until then.
 *
 * @returns the path of the manifest
 * @throws EmendError as `readOwnManifest`
 */
export async function addToManifest(
  folder: string,
  head: ManifestHead,
  files: readonly ManifestFile[],
): Promise<string> {
  const path = join(folder, 'manifest.json');
  const before = await readOwnManifest(folder, head);
  const names = new Set(files.map(({ file }) => file));
  const others = (before?.files ?? []).filter(({ file }) => !names.has(file));
  const manifest: Manifest = { ...head, files: [...others, ...files] };
  const handle = await open(`${path}.part`, 'w');
  try {
    await handle.writeFile(`${JSON.stringify(manifest, null, 2)}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${path}.part`, path);
  await syncFolder(folder);
  return path;
}

/**
 * The manifest of a folder that rows of this log may be moved to; undefined where there is none yet.
 *
 * @throws EmendError `bad_arguments` when the folder belongs to another install or target; `archive_unreadable`
 */
export async function readOwnManifest(folder: string, head: ManifestHead): Promise<Manifest | undefined> {
  const found = await readManifest(join(folder, 'manifest.json')).catch((error: unknown) => {
    const code = (error as { cause?: { code?: string } }).cause?.code;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  });
  if (!found || (found.install === head.install && found.target === head.target)) return found;
  throw new EmendError(
    'bad_arguments',
    `${folder} holds the archive of ${found.target} of install ${found.install}, not of ${head.target} of install ${head.install}`,
    { remedy: 'Give each install a folder of its own (--to).' },
  );
}

/** @throws EmendError `archive_unreadable`, with what is wrong with it */
export async function readManifest(path: string): Promise<Manifest> {
  try {
    return requireManifest(JSON.parse(await readFile(path, 'utf8')));
  } catch (error) {
    const reason = (error as { code?: string }).code ?? (error as Error).message;
    throw new EmendError(
      'archive_unreadable',
      `${path} cannot be read as the manifest of an archive (${reason})`,
      {
        remedy:
          'Give the manifest.json that emend archive wrote, or the folder: its files are known by their SHA-256. A damaged manifest is written again by emend archive to the same folder, once it is out of the way.',
        cause: error,
      },
    );
  }
}

function requireManifest(read: unknown): Manifest {
  if (typeof read !== 'object' || read === null || Array.isArray(read))
    throw new Error(`it is ${read === null ? 'null' : Array.isArray(read) ? 'a list' : `a ${typeof read}`}`);
  const { format, install, target, files } = read as Partial<Manifest>;
  if (format !== 'emend archive 1') throw new Error(`its format is ${String(format)}`);
  for (const [name, value] of Object.entries({ install, target }))
    if (typeof value !== 'string') throw new Error(`it has no ${name}`);
  if (!Array.isArray(files)) throw new Error('it has no list of files');
  const at = files.findIndex((each) => typeof each?.file !== 'string' || typeof each?.sha256 !== 'string');
  if (at !== -1) throw new Error(`files[${at}] has no file or no sha256`);
  return read as Manifest;
}
