import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { LosslessNumber, parse as parseJson, stringify } from 'lossless-json';
import { EmendError } from '../errors.ts';
import { lineError, nameOf, unreadable } from './file-row.ts';
import type { FileRow, RowFile, UnreadRow } from './file-row.ts';
import { recordsOf } from './plain-lines.ts';
import type { PlainLines } from './plain-lines.ts';
import { readCsv } from './read-csv.ts';
import { openText } from './text-file.ts';

const nothingTaken = 'Mend the line; nothing of the file has been taken.';

/**
 * Reads NDJSON or CSV (with a header line), by the file's ending; `.gz` is unpacked. In CSV an empty field is null and `""`
 * is the empty text. In NDJSON the objects `key` and `values` are read as if their fields stood beside them.
 *
 * @throws EmendError `correction_invalid` with the line that cannot be read, or for a file that holds no row
 */
export async function* readRows(path: string): AsyncGenerator<FileRow> {
  for await (const row of readRecords({ path, remedy: nothingTaken })) {
    if ('problem' in row) throw lineError({ path, remedy: nothingTaken }, row.line, row.problem);
    yield row;
  }
}

/** The same, with a record that cannot be read among the others instead of an error. */
async function* readRecords(file: RowFile): AsyncGenerator<FileRow | UnreadRow> {
  for await (const read of readInput(file)) {
    if ('text' in read) yield* recordsOf(read);
    else yield read;
  }
}

/**
 * The records of a file, where they need not be looked into as lines.
 *
 * @throws EmendError where reading cannot go on: no such file, a folder, no text, a quote that is never closed, no row at all
 */
export async function* readInput(file: RowFile): AsyncGenerator<PlainLines | FileRow | UnreadRow> {
  await refuseFolder(file);
  const format = formatOf(file);
  let isEmpty = true;
  for await (const row of format === 'csv' ? readCsv(file) : readNdjson(file)) {
    isEmpty = false;
    yield row;
  }
  if (!isEmpty) return;
  throw new EmendError('correction_invalid', `${nameOf(file)} holds no correction`, {
    remedy:
      format === 'csv'
        ? 'Give a line with the names of the columns, then a line for each correction.'
        : 'Give a line for each correction: a JSON object with the names of the columns.',
  });
}

/** What else is wrong with a path is told when it is read. */
async function refuseFolder({ path }: RowFile): Promise<void> {
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (isFolder)
    throw new EmendError('bad_arguments', `${path} is a folder`, {
      remedy: 'Name a file; the files of a folder are loaded one by one, each under a name of its own.',
    });
}

function formatOf({ path, format }: RowFile): 'csv' | 'ndjson' {
  const ending = /\.(ndjson|jsonl|csv)(\.gz)?$/.exec(path)?.[1];
  if (format) return format;
  if (path === '-') return 'ndjson';
  if (ending) return ending === 'csv' ? 'csv' : 'ndjson';
  throw new EmendError('bad_arguments', `${path} is neither NDJSON nor CSV by its name`, {
    remedy: 'Name it *.ndjson, *.jsonl or *.csv, or one of these with .gz behind it.',
  });
}

async function* readNdjson(file: RowFile): AsyncGenerator<FileRow | UnreadRow> {
  const input = openText(file);
  const lines = createInterface({ input, crlfDelay: Infinity });
  let failure: Error | undefined;
  // some versions of Node end the lines with the error, others without
  input.on('error', (error: Error) => {
    failure = error;
    lines.close();
  });
  let line = 0;
  try {
    for await (const text of lines) {
      line++;
      if (text.trim() !== '') yield parseLine(file, line, text);
    }
  } catch (error) {
    throw unreadable(file, line + 1, error);
  }
  if (failure) throw unreadable(file, line + 1, failure);
}

function parseLine(file: RowFile, line: number, text: string): FileRow | UnreadRow {
  try {
    const value: unknown = parseJson(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { line, ...flatten(value as Record<string, unknown>) };
    throw new TypeError('it is not an object');
  } catch (error) {
    // the ending of a file says what it is; of stdin only the option
    const taken = file.path === '-' && !file.format ? ' as NDJSON (of CSV, say so: --format csv)' : '';
    return { line, problem: `it cannot be read${taken}: ${(error as Error).message}`, raw: text };
  }
}

function flatten(record: Record<string, unknown>): Pick<FileRow, 'values' | 'objects'> {
  const { key, values, ...beside } = record;
  const nested = [key, values].filter((part) => typeof part === 'object' && part !== null);
  const fields = Object.entries(Object.assign({}, beside, ...nested) as Record<string, unknown>);
  const objects = fields.filter(([, value]) => isObject(value)).map(([name]) => name);
  return {
    values: Object.fromEntries(fields.map(([name, value]) => [name, toText(value)])),
    ...(objects.length > 0 ? { objects } : {}),
  };
}

function isObject(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof LosslessNumber)
  );
}

function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (value instanceof LosslessNumber) return value.value;
  return stringify(value) ?? null;
}
