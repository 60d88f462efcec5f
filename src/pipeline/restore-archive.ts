import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { ClientBase } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { identList } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { examineArchiveFile, requireSame } from '../log/archive-file.ts';
import { placesOf } from '../log/archive-manifest.ts';
import { readArchivedFiles, readArchivedIds } from '../log/archive-records.ts';
import type { ArchivedFile } from '../log/archive-records.ts';
import { logTable } from '../log/log-columns.ts';
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
 * Puts the rows of these manifests back into the log, as they were: numbers, nonces, transactions, columns. A file at a time, in one
 * transaction each; files whose rows are in the log are passed over, so that a run that was killed is run again.
 *
 * @throws EmendError `archive_unreadable`, with the file and the line, and nothing of that file is in the log
 */
export async function restoreArchive(
  config: ResolvedConfig,
  manifests: readonly string[],
): Promise<Restored> {
  const places = await placesOf(manifests);
  return withServers(config, { role: 'archive', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    const names = config.targets.map(({ name }) => name);
    const files = (await readArchivedFiles(source, names)).filter(({ sha256 }) => places.has(sha256));
    const restored: Restored['files'][number][] = [];
    let lacking = 0;
    for (const file of files) {
      const path = places.get(file.sha256)!;
      await requireSame(path, file.sha256);
      lacking += await countLacking(store, file, await readArchivedIds(source, file.number));
      await withTransaction(source, (client) => putBack(client, file, path));
      await store.query(`delete from emend.archive where sha256 = $1`, [file.sha256]);
      restored.push({ target: file.target, file: path, rows: file.rows });
    }
    if (lacking > 0) await askForSweep(store, { all: true });
    return { files: restored, lacking };
  });
}

async function putBack(client: ClientBase, file: ArchivedFile, path: string): Promise<void> {
  const marked = await client.query(
    `update corrections._archive
     set restored_at = clock_timestamp(), restored_by = current_user, restored_xid = pg_current_xact_id()
     where number = $1::bigint and restored_at is null`,
    [file.number],
  );
  if (marked.rowCount !== 1) return;
  const { columns, ids } = await examineArchiveFile(path);
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
