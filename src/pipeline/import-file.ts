import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { importHistory } from '../backfill/import-history.ts';
import type { Imported } from '../backfill/import-history.ts';
import { readRows } from '../backfill/read-rows.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { mergeSettings } from '../merge/merge.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';

export interface ImportOptions {
  /** The field that says since when a correction was known. */
  readonly knownAt: string;
  readonly ignore?: readonly string[];
  /** A start that is null means an open one; otherwise such a row is refused. */
  readonly openStart?: boolean;
  /** Names the import; default: the file's name. */
  readonly name?: string;
  readonly onProgress?: (progress: { readonly written: number; readonly merged: number }) => void;
}

/** Imports a file of known history, as the command does. */
export async function importFile(
  config: ResolvedConfig,
  targetName: string,
  file: string,
  options: ImportOptions,
): Promise<Imported> {
  const declaration = findTarget(config.targets, targetName);
  const digest = await checksum(file);
  return withServers(
    config,
    { role: 'import', max: 2, settings: mergeSettings },
    async ({ source, store }) => {
      await requireInstall(store);
      const [target] = await withClient(store, (client) => resolveTargets(client, [declaration]));
      return importHistory({
        source,
        store,
        target: target!,
        name: options.name ?? defaultName(targetName, file),
        digest,
        rows: readRows(file),
        file,
        knownAtColumn: options.knownAt,
        ignore: options.ignore ?? [],
        openStart: options.openStart === true,
        ...(options.onProgress ? { onProgress: options.onProgress } : {}),
      });
    },
  );
}

function defaultName(target: string, file: string): string {
  return `import-${target}-${basename(file)
    .toLowerCase()
    .replaceAll(/[^a-z0-9_.-]/g, '-')}`.slice(0, 100);
}

async function checksum(file: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const bytes of createReadStream(file)) hash.update(bytes as Buffer);
  } catch (error) {
    throw new EmendError('bad_arguments', `${file} cannot be read`, {
      remedy: 'Correct the path, or its rights.',
      cause: error,
    });
  }
  return hash.digest('hex');
}
