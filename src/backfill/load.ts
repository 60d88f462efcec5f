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
import { insertRows } from './insert-rows.ts';
import { pieceOfRows, pieces } from './pieces.ts';
import type { Piece } from './pieces.ts';
import { lineError } from './read-rows.ts';
import type { FileRow, UnreadRow } from './read-rows.ts';
import type { RowWriting } from './row-writing.ts';
import type { SkipFile, SkippedRow } from './skip-file.ts';

export interface LoadWork {
  readonly source: Pool;
  readonly target: Target;
  /** The backfill. */
  readonly name: string;
  /** Names the input: the same name with other content is refused. */
  readonly input: string;
  readonly rows: AsyncIterable<FileRow | UnreadRow>;
  /** Fields of the rows that are not for the log. */
  readonly ignore?: readonly string[];
  /** A start that is null means an open one; otherwise such a row is refused. */
  readonly openStart?: boolean;
  /** Rows of a transaction, 5,000 at most and by default. */
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
  };
  await skipBad?.keepUpTo(reached.line);
  const checksum = createChecksum();
  const size = Math.min(work.chunkRows ?? pieceOfRows.size, pieceOfRows.size);
  const load = { work, writing, checksum };
  let [at, written] = [{ committed: reached, ...reached }, 0];
  for await (const piece of pieces(rowsBehind(load, reached), { ...pieceOfRows, size })) {
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
  { work, writing, checksum }: Load,
  { items, isLast }: Piece<FileRow | UnreadRow>,
  before: Place,
): Promise<{ at: Place; written: number }> {
  const { target, name, input, skipBad } = work;
  await lockInput(client, name, target.name, input);
  const { read } = await readCheckpoint(client, name, target.name, input);
  if (read !== before.committed.read) throw loadedElsewhere(work);
  const left: SkippedRow[] = [];
  const leaveOut = (
    row: FileRow | UnreadRow,
    bad: Pick<BadRow, 'column' | 'rule'>,
    isShape = false,
  ): void => {
    if (!skipBad || (isShape && before.read === 0 && row === items[0])) throw badLine(work, row.line, bad);
    left.push({
      line: row.line,
      column: bad.column,
      reason: bad.rule,
      row: 'values' in row ? row.values : row.raw,
    });
  };
  const readable = items.filter((row): row is FileRow => {
    if ('problem' in row) leaveOut(row, { column: null, rule: row.problem });
    return 'values' in row;
  });
  const ids = await insertRows(client, writing, readable, (row, bad) => leaveOut(row, bad, bad.isShape));
  for (const row of items) checksum.add(contentOf(row));
  const reached: Checkpoint = {
    source: input,
    checksum: checksum.value(),
    read: before.read + items.length,
    skipped: before.skipped + left.length,
    line: items.at(-1)!.line,
    isEnd: isLast,
  };
  if (ids.length > 0) {
    await chunkBackfill(client, name, {
      target: target.name,
      first: ids[0]!,
      last: ids.at(-1)!,
      loader: { ...reached },
    });
  }
  // before the commit: what the checkpoint counts is in the file
  await skipBad?.add(left.toSorted((one, other) => one.line - other.line));
  return { at: { ...reached, committed: ids.length > 0 ? reached : before.committed }, written: ids.length };
}

/** The records behind a checkpoint, when those before it are the ones that it was made of. */
async function* rowsBehind(
  { work, checksum }: Load,
  reached: Checkpoint,
): AsyncGenerator<FileRow | UnreadRow> {
  let read = 0;
  for await (const row of work.rows) {
    if (read < reached.read) {
      checksum.add(contentOf(row));
      read++;
      if (read === reached.read && checksum.value() !== reached.checksum) throw otherContent(work, reached);
      continue;
    }
    if (reached.isEnd) throw otherContent(work, reached);
    yield row;
  }
  if (read < reached.read) throw otherContent(work, reached);
}

function contentOf(row: FileRow | UnreadRow): unknown {
  return 'values' in row ? row.values : row.raw;
}

function badLine(
  { input, remedy = loadRemedy }: LoadWork,
  line: number,
  bad: Pick<BadRow, 'column' | 'rule'>,
): EmendError {
  return lineError({ path: input, remedy }, line, describeBadRow(bad));
}

/** What to do about a line that is refused. */
export const loadRemedy =
  'Mend the line and load again: what was loaded before it stays, and is not loaded twice. Or set bad lines aside with --skip-bad <file>.';

function otherContent({ input, name }: LoadWork, { read, isEnd }: Checkpoint): EmendError {
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
