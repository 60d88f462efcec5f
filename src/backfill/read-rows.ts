import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { createInterface } from 'node:readline';
import { createGunzip } from 'node:zlib';
import { parse as parseCsv } from 'csv-parse';
import { LosslessNumber, parse as parseJson, stringify } from 'lossless-json';
import { EmendError } from '../errors.ts';

/** One record of a file, every value as text: no number passes through a double (law 9). */
export interface FileRow {
  readonly line: number;
  readonly values: Readonly<Record<string, string | null>>;
}

/**
 * Reads NDJSON or CSV (with a header line), by the file's ending; `.gz` is unpacked. In CSV an empty field is null and `""`
 * is the empty text. In NDJSON the objects `key` and `values` are read as if their fields stood beside them.
 *
 * @throws EmendError `correction_invalid` with the line that cannot be read
 */
export async function* readRows(path: string): AsyncGenerator<FileRow> {
  const format = /\.(ndjson|jsonl|csv)(\.gz)?$/.exec(path)?.[1];
  if (!format) {
    throw new EmendError('bad_arguments', `${path} is neither NDJSON nor CSV by its name`, {
      remedy: 'Name it *.ndjson, *.jsonl or *.csv, or one of these with .gz behind it.',
    });
  }
  yield* format === 'csv' ? readCsv(path) : readNdjson(path);
}

function open(path: string): Readable {
  const file = createReadStream(path);
  const input = path.endsWith('.gz') ? file.pipe(createGunzip()) : file;
  // pipe does not pass errors on
  file.on('error', (error) => input.destroy(error));
  return input;
}

async function* readNdjson(path: string): AsyncGenerator<FileRow> {
  const input = open(path);
  const lines = createInterface({ input, crlfDelay: Infinity });
  let failure: Error | undefined;
  input.on('error', (error: Error) => {
    failure = error;
    lines.close();
  });
  let line = 0;
  for await (const text of lines) {
    line++;
    if (text.trim() !== '') yield { line, values: flatten(parseLine(path, line, text)) };
  }
  if (failure) throw unreadable(path, line, failure);
}

function parseLine(path: string, line: number, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    throw unreadable(path, line, error);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw unreadable(path, line, new TypeError('it is not an object'));
}

function flatten(record: Record<string, unknown>): Record<string, string | null> {
  const { key, values, ...beside } = record;
  const nested = [key, values].filter((part) => typeof part === 'object' && part !== null);
  const all = Object.assign({}, beside, ...nested) as Record<string, unknown>;
  return Object.fromEntries(Object.entries(all).map(([name, value]) => [name, toText(value)]));
}

function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (value instanceof LosslessNumber) return value.value;
  return stringify(value) ?? null;
}

async function* readCsv(path: string): AsyncGenerator<FileRow> {
  const parser = parseCsv({
    columns: true,
    info: true,
    bom: true,
    cast: (value, { quoting, header }) => (value === '' && !quoting && !header ? null : value),
  });
  const input = open(path);
  input.on('error', (error) => parser.destroy(error));
  let line = 1;
  try {
    for await (const { record, info } of input.pipe(parser) as AsyncIterable<{
      record: Record<string, string | null>;
      info: { lines: number };
    }>) {
      line = info.lines;
      yield { line, values: record };
    }
  } catch (error) {
    throw unreadable(path, line, error);
  }
}

function unreadable(path: string, line: number, error: unknown): EmendError {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
    return new EmendError('bad_arguments', `there is no file ${path}`, {
      remedy: 'Correct the path.',
      cause: error,
    });
  }
  return new EmendError(
    'correction_invalid',
    `${path}, line ${line} or the one after it cannot be read: ${(error as Error).message}`,
    {
      remedy: 'Mend the line; nothing of the file has been taken.',
      cause: error,
    },
  );
}
