import { appendFile, readFile, writeFile } from 'node:fs/promises';

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

export function createSkipFile(path: string): SkipFile {
  return {
    path,
    keepUpTo: async (line) => {
      const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return '';
        throw error;
      });
      const kept = text.split('\n').filter((each) => isUpTo(each, line));
      await writeFile(path, kept.map((each) => `${each}\n`).join(''));
    },
    add: async (rows) => {
      if (rows.length > 0) await appendFile(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    },
  };
}

/** A line that was cut when its writer was killed is not. */
function isUpTo(text: string, line: number): boolean {
  if (text === '') return false;
  try {
    return (JSON.parse(text) as SkippedRow).line <= line;
  } catch {
    return false;
  }
}
