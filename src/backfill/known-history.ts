import type { Pool } from 'pg';
import type { Target } from '../change/target.ts';
import type { FileRow } from './file-row.ts';

/** Corrections with the time at which each was known, in the order of these times, and where they go. */
export interface HistoryImport {
  readonly source: Pool;
  readonly store: Pool;
  readonly target: Target;
  /** Names the import: the same name with other content is refused. */
  readonly name: string;
  /** Tells other content: a checksum of the file. */
  readonly digest: string;
  readonly rows: AsyncIterable<FileRow>;
  /** The file of the rows, named in errors. */
  readonly file: string;
  /** The column of `rows` that says since when a correction was known. */
  readonly knownAtColumn: string;
  /** Columns of `rows` that are not for emend. */
  readonly ignore: readonly string[];
  /** Whether a start that is null means an open one. Without it such a row is refused: a missing start is a mistake more often. */
  readonly openStart?: boolean;
  /** Told after each step: rows in the log, then rows merged. */
  readonly onProgress?: (progress: { readonly written: number; readonly merged: number }) => void;
}
