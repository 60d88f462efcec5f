import { CsvError } from 'csv-parse';
import { EmendError, isEmendError } from '../errors.ts';
import { NoText } from './text-file.ts';
import type { ByteStream } from './text-file.ts';

/** One record of a file, every value as text: no number passes through a double (law 9). */
export interface FileRow {
  readonly line: number;
  readonly values: Readonly<Record<string, string | null>>;
  /** Its fields are named by the header, in line 1 of the file. */
  readonly isHeaded?: boolean;
  /** Fields whose value is the text of a JSON object: only a json column takes one. */
  readonly objects?: readonly string[];
}

/** A record that cannot be read, where those behind it can. */
export interface UnreadRow {
  readonly line: number;
  readonly problem: string;
  readonly raw: unknown;
}

/** Where rows are read from. */
export interface RowFile {
  /** `-` is stdin. */
  readonly path: string;
  /** Default: by the file's ending; NDJSON for stdin. */
  readonly format?: 'csv' | 'ndjson' | undefined;
  /** What to do about a line that cannot be read. */
  readonly remedy: string;
  /** Given the stream of bytes, to see how far it has been read. */
  readonly onOpen?: ((file: ByteStream) => void) | undefined;
}

export function nameOf({ path }: Pick<RowFile, 'path'>): string {
  return path === '-' ? 'stdin' : path;
}

/**
 * `line` is where reading had come to; a CSV parser knows better where its error is.
 *
 * @param before lines of the file that the parser was not given
 */
export function unreadable(file: RowFile, line: number, error: unknown, before = 0): EmendError {
  if (isEmendError(error)) return error;
  const { message, code } = error as NodeJS.ErrnoException;
  if (error instanceof NoText) {
    return new EmendError(
      'correction_invalid',
      `${nameOf(file)}: ${message} (line ${line} or one after it)`,
      {
        remedy: error.remedy,
      },
    );
  }
  if (code === 'ENOENT') {
    return new EmendError('bad_arguments', `there is no file ${file.path}`, {
      remedy: 'Correct the path.',
      cause: error,
    });
  }
  const at = error instanceof CsvError ? before + (error as CsvError & { lines: number }).lines : line;
  return lineError(file, at, `it cannot be read: ${message}`, error);
}

export function lineError(
  file: Pick<RowFile, 'path' | 'remedy'>,
  line: number,
  what: string,
  cause?: unknown,
): EmendError {
  return new EmendError('correction_invalid', `${nameOf(file)}, line ${line}: ${what}`, {
    remedy: file.remedy,
    ...(cause === undefined ? {} : { cause }),
  });
}
