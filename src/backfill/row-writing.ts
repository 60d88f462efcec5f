import type { Target } from '../change/target.ts';
import type { AppendColumn } from '../log/append-columns.ts';

/** How rows of a file become rows of a log. */
export interface RowWriting {
  readonly target: Target;
  /** The backfill, or import, that they belong to. */
  readonly name: string;
  /** The columns of the log, as the source has them. */
  readonly columns: readonly AppendColumn[];
  /** Fields of the rows that are not for the log. */
  readonly ignore: readonly string[];
  /** Whether a start that is null means an open one. Without it such a row is refused: a missing start is a mistake more often. */
  readonly openStart?: boolean;
  /** Columns whose texts are cast, and not read by COPY: `readCastColumns`. */
  readonly cast?: readonly string[];
}
