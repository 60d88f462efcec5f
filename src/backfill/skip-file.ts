import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { EmendError } from '../errors.ts';

/** A record that was left out, as a line of NDJSON. */
export interface SkippedRow {
  readonly line: number;
  readonly column: string | null;
  readonly reason: string;
  /** As it was read. */
  readonly row: unknown;
}

/** The file of what was left out. A load that goes on has it say what was left out up to there, and not more. */
export interface SkipFile {
  readonly path: string;
  keepUpTo(line: number): Promise<void>;
  add(rows: readonly SkippedRow[]): Promise<void>;
}

/** @throws EmendError `bad_arguments` for a file that cannot be written, or that holds anything else: nothing of it is changed */
export function createSkipFile(path: string): SkipFile {
  return {
    path,
    keepUpTo: async (line) => {
      const texts = (await readText(path)).split('\n').filter((text) => text !== '');
      const rows = texts.map(rowIn);
      // a line that was cut when its writer was killed is the last one
      if (rows.slice(0, -1).includes(undefined) || (texts.length === 1 && !isBegun(texts[0]!)))
        throw notASkipFile(path);
      const kept = texts.filter((_text, place) => (rows[place]?.line ?? Infinity) <= line);
      await writeFile(path, kept.map((text) => `${text}\n`).join('')).catch((error: Error) => {
        throw unwritable(path, error);
      });
    },
    add: async (rows) => {
      if (rows.length > 0) await appendFile(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    },
  };
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw unwritable(path, error as Error);
  }
}

function isBegun(text: string): boolean {
  const head = '{"line":';
  return text.startsWith(head) || head.startsWith(text);
}

function rowIn(text: string): SkippedRow | undefined {
  try {
    const row = JSON.parse(text) as Partial<SkippedRow> | null;
    return typeof row?.line === 'number' && typeof row.reason === 'string' && 'row' in row
      ? (row as SkippedRow)
      : undefined;
  } catch {
    return undefined;
  }
}

function notASkipFile(path: string): EmendError {
  return new EmendError('bad_arguments', `${path} holds something else than lines that were left out`, {
    remedy: 'Name a new file for them (--skip-bad, skipBad). Nothing has been written to it.',
  });
}

function unwritable(path: string, cause: Error): EmendError {
  return new EmendError('bad_arguments', `the file for bad lines cannot be written: ${cause.message}`, {
    remedy: `Name another one than ${path} (--skip-bad, skipBad).`,
    cause,
  });
}
