import { createInterface } from 'node:readline';
import { CsvError, parse as parseCsv } from 'csv-parse';
import { parse as parseOnce } from 'csv-parse/sync';
import { LosslessNumber, parse as parseJson, stringify } from 'lossless-json';
import { EmendError, isEmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { NoText, openText } from './text-file.ts';
import type { ByteStream } from './text-file.ts';

/** One record of a file, every value as text: no number passes through a double (law 9). */
export interface FileRow {
  readonly line: number;
  readonly values: Readonly<Record<string, string | null>>;
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

/**
 * The same, with a record that cannot be read among the others instead of an error.
 *
 * @throws EmendError where reading cannot go on: no such file, no text, a quote that is never closed, no row at all
 */
export async function* readRecords(file: RowFile): AsyncGenerator<FileRow | UnreadRow> {
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

function formatOf({ path, format }: RowFile): 'csv' | 'ndjson' {
  const ending = /\.(ndjson|jsonl|csv)(\.gz)?$/.exec(path)?.[1];
  if (format) return format;
  if (path === '-') return 'ndjson';
  if (ending) return ending === 'csv' ? 'csv' : 'ndjson';
  throw new EmendError('bad_arguments', `${path} is neither NDJSON nor CSV by its name`, {
    remedy: 'Name it *.ndjson, *.jsonl or *.csv, or one of these with .gz behind it.',
  });
}

function nameOf({ path }: Pick<RowFile, 'path'>): string {
  return path === '-' ? 'stdin' : path;
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

interface CsvRecord {
  readonly record: Readonly<Record<string, string>>;
  readonly raw: string;
  readonly info: { readonly lines: number; readonly error?: CsvError & CsvPlace };
}

interface CsvPlace {
  readonly lines: number;
  readonly record: readonly unknown[];
  readonly columns: readonly unknown[];
}

async function* readCsv(file: RowFile): AsyncGenerator<FileRow | UnreadRow> {
  const parser = parseCsv({
    columns: (names: string[]) => refuseRepeated(file, names),
    info: true,
    // a line with too few or too many fields is given with its error, and reading goes on
    relaxColumnCount: true,
    skipEmptyLines: true,
    raw: true,
  });
  const input = openText(file);
  input.on('error', (error) => parser.destroy(error));
  let line = 1;
  try {
    for await (const { record, raw, info } of input.pipe(parser) as AsyncIterable<CsvRecord>) {
      line = info.lines;
      yield info.error ? wrongCount(info.error) : { line, values: withNulls(record, raw) };
    }
  } catch (error) {
    throw unreadable(file, line + 1, error);
  }
}

/**
 * An empty field is null, unless it was quoted. Whether it was, the parser tells to `cast` alone, which makes it several times
 * slower: so it is asked only about the records where it matters.
 */
function withNulls(record: CsvRecord['record'], raw: string): FileRow['values'] {
  const fields = Object.entries(record);
  if (fields.every(([, text]) => text !== '')) return record;
  const texts = raw.includes('""') ? readQuoted(raw) : fields.map(([, text]) => text || null);
  return Object.fromEntries(fields.map(([name], place) => [name, texts[place] ?? null]));
}

function readQuoted(raw: string): (string | null)[] {
  const records = parseOnce(raw, {
    skipEmptyLines: true,
    cast: (text, { quoting }) => (text === '' && !quoting ? null : text),
  }) as unknown as (string | null)[][];
  return records[0]!;
}

function wrongCount({ lines, record, columns }: CsvPlace): UnreadRow {
  const fields = countOf(record.length, 'field');
  return {
    line: lines,
    problem: `it has ${fields}, and the header names ${columns.length}`,
    raw: record,
  };
}

/** The last of two columns of one name would win in silence. */
function refuseRepeated(file: RowFile, names: string[]): string[] {
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated === undefined) return names;
  throw lineError(file, 1, `the header names column "${repeated}" twice`);
}

/** `line` is where reading had come to; a CSV parser knows better where its error is. */
function unreadable(file: RowFile, line: number, error: unknown): EmendError {
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
  const at = error instanceof CsvError ? (error as CsvError & CsvPlace).lines : line;
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
