/**
 * Loads rows into an open backfill.
 *
 * Promise: each record of an input is in the log once, in the input's order, however often the load is killed and run again;
 * a chunk is in the log as a whole with its checkpoint and the request to stage it, or not at all.
 * If it breaks: a backfill has rows twice or lacks some, its checks may not notice, and history is rewritten wrongly.
 */
import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { readAppendColumns } from '../log/append-columns.ts';
import { chunkBackfill } from '../log/backfill.ts';
import { asRefusal, requireOpen } from '../log/backfill-refusal.ts';
import { countOf } from '../observe/count-of.ts';
import { describeBadRow } from './bad-row.ts';
import type { BadRow } from './bad-row.ts';
import { createChecksum, lockInput, readCheckpoint } from './checkpoint.ts';
import type { Checkpoint, Checksum } from './checkpoint.ts';
import { areCopied, copyLines, readCastColumns } from './copy-lines.ts';
import type { WrittenRows } from './copy-lines.ts';
import { lineError } from './file-row.ts';
import type { FileRow, UnreadRow } from './file-row.ts';
import { insertRows } from './insert-rows.ts';
import { isLines, loadPieces } from './load-pieces.ts';
import type { LoadItem, LoadPiece } from './load-pieces.ts';
import { cutLines, recordsOf } from './plain-lines.ts';
import type { RowWriting } from './row-writing.ts';
import type { SkipFile, SkippedRow } from './skip-file.ts';

export interface LoadWork {
  readonly source: Pool;
  readonly target: Target;
  /** The backfill. */
  readonly name: string;
  /** Names the input: the same name with other content is refused. */
  readonly input: string;
  readonly rows: AsyncIterable<LoadItem>;
  /** Fields of the rows that are not for the log. */
  readonly ignore?: readonly string[];
  /** A start that is null means an open one; otherwise such a row is refused. */
  readonly openStart?: boolean;
  /** Records of a transaction, where they are to be fewer than `loadPieces` takes. */
  readonly chunkRows?: number;
  /** Where bad rows go. Without it the first one ends the load. */
  readonly skipBad?: SkipFile;
  /** What to do about a bad row; default: `loadRemedy`. */
  readonly remedy?: string | undefined;
  readonly onProgress?: (progress: LoadProgress) => void;
}

export interface LoadProgress {
  /** Records of the input that are behind us, also by earlier runs. */
  readonly read: number;
  /** Rows that this run has written. */
  readonly written: number;
  readonly skipped: number;
}

export interface Loaded {
  readonly backfill: string;
  readonly target: string;
  readonly input: string;
  /** Records of the input. */
  readonly read: number;
  /** Rows that this run has written; the others had been written by an earlier one. */
  readonly written: number;
  /** Records that were left out, also by earlier runs. */
  readonly skipped: number;
}

/**
 * @throws EmendError `correction_invalid` with input, line, column and rule of a bad row, nothing of its chunk being in the
 *   log; `backfill_refused` for a backfill that takes no rows, and for other content under the name of the input
 */
export async function loadRows(work: LoadWork): Promise<Loaded> {
  const { source, target, name, input, skipBad } = work;
  const reached = await readCheckpoint(source, name, target.name, input);
  if (!reached.isEnd) await requireOpen(source, name, target.name);
  const writing: RowWriting = {
    target,
    name,
    columns: await readAppendColumns(source, target.name),
    ignore: work.ignore ?? [],
    openStart: work.openStart === true,
    cast: await readCastColumns(source, target),
  };
  await skipBad?.keepUpTo(reached.line);
  const checksum = createChecksum();
  const load = { work, writing, checksum };
  let [at, written] = [{ committed: reached, ...reached }, 0];
  for await (const piece of loadPieces(rowsBehind(load, reached), work.chunkRows)) {
    const rows = await withTransaction(source, (client) => writeChunk(client, load, piece, at)).catch(
      (error: unknown) => {
        throw asRefusal(error);
      },
    );
    at = rows.at;
    written += rows.written;
    work.onProgress?.({ read: at.read, written, skipped: at.skipped });
  }
  return { backfill: name, target: target.name, input, read: at.read, written, skipped: at.skipped };
}

interface Load {
  readonly work: LoadWork;
  readonly writing: RowWriting;
  readonly checksum: Checksum;
}

/** Where a load is. A chunk of which every row was left out commits nothing. */
interface Place extends Checkpoint {
  readonly committed: Checkpoint;
}

async function writeChunk(
  client: ClientBase,
  load: Load,
  piece: LoadPiece,
  before: Place,
): Promise<{ at: Place; written: number }> {
  const { work, checksum } = load;
  const { target, name, input, skipBad } = work;
  await lockInput(client, name, target.name, input);
  const { read } = await readCheckpoint(client, name, target.name, input);
  if (read !== before.committed.read) throw loadedElsewhere(work);
  const left: SkippedRow[] = [];
  const written = await writePiece(client, load, piece, before, left);
  if ('failure' in piece) throw piece.failure;
  for (const item of 'lines' in piece ? [piece.lines] : piece.items) checksum.add(item);
  const reached: Checkpoint = {
    source: input,
    checksum: checksum.value(),
    read: before.read + piece.count,
    skipped: before.skipped + left.length,
    line: piece.lastLine,
    isEnd: piece.isLast,
  };
  if (written) {
    const { first, last } = written;
    await chunkBackfill(client, name, { target: target.name, first, last, loader: { ...reached } });
  }
  // before the commit: what the checkpoint counts is in the file
  await skipBad?.add(left.toSorted((one, other) => one.line - other.line));
  return {
    at: { ...reached, committed: written ? reached : before.committed },
    written: written?.rows ?? 0,
  };
}

/** Lines as they are, where the log takes all of them; record by record it is said which it refuses. Undefined: there is none to write. */
async function writePiece(
  client: ClientBase,
  load: Load,
  piece: LoadPiece,
  before: Place,
  left: SkippedRow[],
): Promise<WrittenRows | undefined> {
  if (!('lines' in piece)) return writeRecords(client, load, piece.items, before, left);
  const copied = areCopied(load.writing, piece.lines)
    ? await copyLines(client, load.writing, piece.lines)
    : undefined;
  return copied ?? writeRecords(client, load, recordsOf(piece.lines), before, left);
}

/** @param left gets the bad ones, where they are set aside */
async function writeRecords(
  client: ClientBase,
  { work, writing }: Load,
  items: readonly (FileRow | UnreadRow)[],
  before: Place,
  left: SkippedRow[],
): Promise<WrittenRows | undefined> {
  const leaveOut = (row: FileRow | UnreadRow, bad: BadRow): void => {
    const isFirst = before.read === 0 && row === items[0];
    if (!work.skipBad || (bad.isShape === true && isFirst)) throw badLine(work, bad.line ?? row.line, bad);
    left.push({
      line: row.line,
      column: bad.column,
      reason: bad.rule,
      row: 'values' in row ? row.values : row.raw,
    });
  };
  const ids = await insertRows(client, writing, items, leaveOut);
  return ids.length > 0 ? { first: ids[0]!, last: ids.at(-1)!, rows: ids.length } : undefined;
}

/**
 * Compares an input that can be loaded no more with what is loaded of it. Records behind the last checkpoint, each of which was
 * set aside, nobody wrote down: they are not compared.
 *
 * @throws EmendError `backfill_refused` for other content
 */
export async function requireAsLoaded({
  source,
  target,
  ...work
}: Pick<LoadWork, 'source' | 'name' | 'input' | 'rows'> & { target: string }): Promise<void> {
  const reached = await readCheckpoint(source, work.name, target, work.input);
  if (reached.read === 0) return;
  const behind = rowsBehind({ work, checksum: createChecksum() }, reached);
  while ((await behind.next()).done !== true);
}

/** What is behind a checkpoint, when the records before it are the ones that it was made of. */
async function* rowsBehind(
  { work, checksum }: { work: Pick<LoadWork, 'name' | 'input' | 'rows'>; checksum: Checksum },
  reached: Checkpoint,
): AsyncGenerator<LoadItem> {
  let read = 0;
  for await (const item of work.rows) {
    const [before, behind] = partAt(item, reached.read - read);
    if (before) {
      checksum.add(before);
      read += isLines(before) ? before.rows : 1;
      if (read === reached.read && checksum.value() !== reached.checksum) throw otherContent(work, reached);
    }
    if (!behind) continue;
    if (reached.isEnd) throw otherContent(work, reached);
    yield behind;
  }
  if (read < reached.read) throw otherContent(work, reached);
}

/** What of an item is among the next so many records, and what is behind them. */
function partAt(item: LoadItem, records: number): [LoadItem | undefined, LoadItem | undefined] {
  if (records <= 0) return [undefined, item];
  return isLines(item) ? cutLines(item, records) : [item, undefined];
}

function badLine({ input, remedy = loadRemedy }: LoadWork, line: number, bad: BadRow): EmendError {
  return lineError({ path: input, remedy }, line, describeBadRow(bad));
}

/** What to do about a line that is refused. */
export const loadRemedy =
  'Mend the line and load again: what was loaded before it stays, and is not loaded twice. Or set bad lines aside with --skip-bad <file>.';

function otherContent(
  { input, name }: Pick<LoadWork, 'name' | 'input'>,
  { read, isEnd }: Checkpoint,
): EmendError {
  return new EmendError(
    'backfill_refused',
    `${input} has other content than what backfill ${name} has of it (${countOf(read, 'record')}${isEnd ? ', complete' : ''})`,
    { remedy: 'Load the same content again, or other content under another name (--source <name>).' },
  );
}

function loadedElsewhere({ input, name }: LoadWork): EmendError {
  return new EmendError('backfill_busy', `${input} is being loaded into backfill ${name} by somebody else`, {
    remedy: 'Let one of them end. Run again, this one goes on where the other was.',
  });
}
