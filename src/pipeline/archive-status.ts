import type { Pool } from 'pg';
import type { Problem } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';

/** A file of archived rows that the ledger does not have all of: the store was put back to an older state after they were moved. */
export interface LackingArchive {
  readonly target: string;
  readonly file: string;
  readonly lacking: number;
}

export async function readLackingArchives(store: Pool): Promise<LackingArchive[]> {
  const { rows } = await store.query<Record<keyof LackingArchive, string>>(
    `select a.target, a.file, a.lacking from emend.archive a where a.lacking > 0 order by a.target, a.file`,
  );
  return rows.map((row) => ({ ...row, lacking: Number(row.lacking) }));
}

export function judgeArchives(archives: readonly LackingArchive[]): Problem[] {
  return archives.map(({ target, file, lacking }) => ({
    path: `targets.${target}`,
    problem: `${countOf(lacking, 'row')} of ${file} had an effect that the store has lost, and ${lacking === 1 ? 'is' : 'are'} in no log`,
    remedy:
      'Put them back: emend archive restore with the manifest.json beside that file. The sweep brings them then.',
  }));
}
