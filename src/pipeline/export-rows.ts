import { open, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { EmendError } from '../errors.ts';

/** How a row is written as CSV: the heading, and its fields; objects are written as JSON, null as nothing. */
export interface CsvForm<T> {
  readonly heading: readonly string[];
  readonly fields: (row: T) => readonly (string | number | object | null)[];
}

/**
 * Writes pages of rows to a new or empty file, as NDJSON or CSV by its ending. Returns how many rows. Where reading them fails,
 * no part of them is left there.
 *
 * @throws EmendError `bad_arguments` for another ending, for a path that cannot be written, and for a file that holds something:
 *   nothing of it is changed
 */
export async function exportRows<T>(
  path: string,
  pages: AsyncIterable<readonly T[]>,
  csv: CsvForm<T>,
): Promise<number> {
  const isCsv = path.endsWith('.csv');
  if (!isCsv && !/\.(ndjson|jsonl)$/.test(path)) {
    throw new EmendError('bad_arguments', `${path} is neither NDJSON nor CSV by its name`, {
      remedy: 'Name it *.ndjson or *.csv.',
    });
  }
  const { file, isDevice } = await openExport(path);
  let exported = 0;
  try {
    await pipeline(async function* () {
      if (isCsv) yield `${csv.heading.join(',')}\n`;
      for await (const page of pages) {
        exported += page.length;
        yield page.map((row) => (isCsv ? csvLine(csv.fields(row)) : `${JSON.stringify(row)}\n`)).join('');
      }
    }, file.createWriteStream());
  } catch (error) {
    if (!isDevice) await rm(path, { force: true });
    throw error;
  }
  return exported;
}

/** To append: what others have written there is neither cut off nor written over. */
async function openExport(path: string): Promise<{ file: FileHandle; isDevice: boolean }> {
  const file = await open(path, 'a').catch((error: NodeJS.ErrnoException) => {
    throw new EmendError('bad_arguments', `${path} cannot be written: ${error.code ?? error.message}`, {
      remedy: 'Correct the path: its folder has to be there, and to be writable.',
      cause: error,
    });
  });
  const found = await file.stat();
  if (found.size === 0) return { file, isDevice: !found.isFile() };
  await file.close();
  throw new EmendError('bad_arguments', `${path} holds something already; nothing of it was changed`, {
    remedy: 'Name another file (--export, exportTo), or take this one away.',
  });
}

function csvLine(fields: readonly (string | number | object | null)[]): string {
  const texts = fields.map((field) => {
    if (field === null) return '';
    return typeof field === 'object' ? JSON.stringify(field) : String(field);
  });
  return `${texts.map((text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(',')}\n`;
}
