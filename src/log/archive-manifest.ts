import { open, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
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

/**
 * Writes a file down in the manifest of its folder, in place of one of the same name. On disk when it returns; the old manifest is whole
 * until then.
 *
 * @returns the path of the manifest
 * @throws EmendError `bad_arguments` when the folder belongs to another install or target
 */
export async function addToManifest(
  folder: string,
  head: Omit<Manifest, 'files'>,
  file: ManifestFile,
): Promise<string> {
  const path = join(folder, 'manifest.json');
  const before = await readManifest(path).catch((error: unknown) => {
    if ((error as { cause?: { code?: string } }).cause?.code === 'ENOENT') return undefined;
    throw error;
  });
  if (before && (before.install !== head.install || before.target !== head.target)) {
    throw new EmendError(
      'bad_arguments',
      `${folder} holds the archive of ${before.target} of install ${before.install}, not of ${head.target} of install ${head.install}`,
      { remedy: 'Give each install a folder of its own (--to).' },
    );
  }
  const others = (before?.files ?? []).filter((each) => each.file !== file.file);
  const manifest: Manifest = { ...head, files: [...others, file] };
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

/** @throws EmendError `archive_unreadable` */
export async function readManifest(path: string): Promise<Manifest> {
  try {
    const manifest = JSON.parse(await readFile(path, 'utf8')) as Manifest;
    if (manifest.format === 'emend archive 1') return manifest;
    throw new Error(`its format is ${String(manifest.format)}`);
  } catch (error) {
    const reason = (error as { code?: string }).code ?? (error as Error).message;
    throw new EmendError(
      'archive_unreadable',
      `${path} cannot be read as the manifest of an archive (${reason})`,
      {
        remedy: 'Give the manifest.json that emend archive wrote.',
        cause: error,
      },
    );
  }
}

/** Where the files of these manifests are, by their SHA-256: they may have been moved since they were written. */
export async function placesOf(manifests: readonly string[]): Promise<Map<string, string>> {
  const places = new Map<string, string>();
  for (const path of manifests) {
    const { files } = await readManifest(path);
    for (const { sha256, file } of files) places.set(sha256, join(dirname(path), file));
  }
  return places;
}
