import { readArchivedFiles, readArchivedIds } from '../log/archive-records.ts';
import { countLacking, noteArchive } from '../store/archivable.ts';
import type { Sides } from './diverged.ts';

/**
 * Holds archived rows against the ledger, where that has not been done for this ledger: a store that was put back to an older state
 * does not know them, and may lack their effect, which no walk along the logs would find (law 5). They can only be put back into the
 * log by somebody who has the files; `status` says so.
 */
export async function compareArchives({ source, store, targets }: Sides, all: boolean): Promise<void> {
  const files = await readArchivedFiles(source, targets);
  const { rows } = await store.query<{ sha256: string }>(
    `with gone as (
       delete from emend.archive a where a.target = any($1::text[]) and a.sha256 <> all($2::text[])
     )
     select a.sha256 from emend.archive a where a.sha256 = any($2::text[])`,
    [targets, files.map(({ sha256 }) => sha256)],
  );
  const known = new Set(all ? [] : rows.map(({ sha256 }) => sha256));
  for (const file of files) {
    if (known.has(file.sha256)) continue;
    const ids = await readArchivedIds(source, file.number);
    await noteArchive(store, file, await countLacking(store, file, ids));
  }
}
