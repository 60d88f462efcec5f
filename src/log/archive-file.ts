/**
 * A file of archived log rows: what COPY writes in its text format, with a header line, packed by gzip.
 *
 * Promise: what is read is what was written, to the byte, or an error says which file and from which line on.
 * If it breaks: rows that were taken out of the log on the strength of a file are lost (law 5).
 */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { access, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline as pipelineOf } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import { createGunzip, createGzip } from 'node:zlib';
import type { ClientBase } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { digestOfTexts } from '../change/row-digest.ts';
import { EmendError } from '../errors.ts';
import { parseCopyLine } from './copy-text.ts';

/** How the name of each file ends. */
export const archiveSuffix = '.copy.gz';

/** What a file holds, found by reading it. */
export interface FileFigures {
  readonly columns: readonly string[];
  readonly rows: number;
  /** `_id`s in the order of the file. */
  readonly ids: readonly bigint[];
  /** xor of all `_nonce`s. */
  readonly nonces: bigint;
  /** Sum of the digests of the rows, of all columns in the order of the header; see `change/row-digest.ts`. */
  readonly digest: bigint;
  readonly bytes: number;
  /** Of the packed file, in hex. */
  readonly sha256: string;
}

/**
 * Writes what a select gives. When it returns, the file and its name are on disk; before, there is at most a `.part` beside it.
 *
 * @param select as SQL without parameters, which COPY does not take
 */
export async function writeArchiveFile(client: ClientBase, select: string, path: string): Promise<void> {
  const part = `${path}.part`;
  const rows = client.query(copyTo(`copy (${select}) to stdout with (format text, header true)`));
  await pipeline(rows, createGzip(), createWriteStream(part, { flush: true }));
  await rename(part, path);
  await syncFolder(dirname(path));
}

/** A name is on disk when its folder is. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** @throws EmendError `archive_unreadable` */
export async function examineArchiveFile(path: string): Promise<FileFigures> {
  const raw = createRawFigures();
  const ids: bigint[] = [];
  let [nonces, digest] = [0n, 0n];
  let columns: readonly string[] = [];
  for await (const part of linesOf(path, (chunk) => raw.add(chunk))) {
    columns = part.columns;
    const [id, nonce] = [columns.indexOf('_id'), columns.indexOf('_nonce')];
    for (const row of part.rows) {
      ids.push(BigInt(row[id]!));
      nonces ^= BigInt(row[nonce]!);
      digest += digestOfTexts(row);
    }
  }
  return { columns, rows: ids.length, ids, nonces, digest, ...raw.figures() };
}

/** Rows of a file with the names of their columns. */
export interface FilePart {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/**
 * Reads a file that is known by its SHA-256, which is compared before the first row is given.
 *
 * @throws EmendError `archive_unreadable`, with the file, and the line from which on it cannot be read where that is known
 */
export async function* readArchiveFile(path: string, sha256: string): AsyncGenerator<FilePart> {
  await requireSame(path, sha256);
  yield* linesOf(path);
}

/** @throws EmendError `archive_unreadable` */
export async function requireSame(path: string, sha256: string): Promise<void> {
  const raw = createRawFigures();
  try {
    for await (const chunk of createReadStream(path)) raw.add(chunk as Buffer);
  } catch (error) {
    throw unreadable(path, `cannot be read (${reasonOf(error)})`, error);
  }
  const found = raw.figures().sha256;
  if (found === sha256) return;
  // damage has a place where gzip or the rows do not go on
  for await (const _ of linesOf(path)) void _;
  throw unreadable(path, `is not the file that was archived: its SHA-256 is ${found}, not ${sha256}`);
}

function createRawFigures() {
  const hash = createHash('sha256');
  let bytes = 0;
  return {
    add(chunk: Buffer): void {
      hash.update(chunk);
      bytes += chunk.length;
    },
    figures: () => ({ bytes, sha256: hash.digest('hex') }),
  };
}

/** Unpacks, some thousand lines at a time. */
async function* linesOf(path: string, onBytes: (chunk: Buffer) => void = () => {}): AsyncGenerator<FilePart> {
  const unpacked = createGunzip();
  pipelineOf(
    createReadStream(path),
    async function* tap(chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        onBytes(chunk);
        yield chunk;
      }
    },
    unpacked,
    () => {}, // what is wrong ends the loop below, too
  );
  const decoder = new StringDecoder('utf8');
  let columns: readonly string[] | undefined;
  let line = 0;
  let rest = '';
  try {
    for await (const chunk of unpacked) {
      const lines = (rest + decoder.write(chunk as Buffer)).split('\n');
      rest = lines.pop()!;
      const rows: (string | null)[][] = [];
      for (const each of lines) {
        const fields = parseCopyLine(each);
        line += 1;
        if (!columns) columns = fields.map(String);
        else if (fields.length === columns.length) rows.push(fields);
        else throw unreadable(path, `has another number of fields in line ${line} than in its header`);
      }
      if (columns && rows.length > 0) yield { columns, rows };
    }
  } catch (error) {
    if (error instanceof EmendError) throw error;
    throw unreadable(path, `cannot be read from line ${line + 1} on (${reasonOf(error)})`, error);
  }
  if (rest !== '' || !columns) throw unreadable(path, `ends within line ${line + 1}`);
}

function reasonOf(error: unknown): string {
  return (error as { code?: string }).code ?? (error as Error).message;
}

function unreadable(path: string, what: string, cause?: unknown): EmendError {
  return new EmendError('archive_unreadable', `${path} ${what}`, {
    remedy:
      'Bring the file back from a copy of it, to the same place; or name the folder (or manifest) of a copy: --archive.',
    cause,
  });
}
