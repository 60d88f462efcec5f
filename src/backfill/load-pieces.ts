import type { FileRow, UnreadRow } from './file-row.ts';
import { pieceOfRows } from './pieces.ts';
import { cutLines, joinLines } from './plain-lines.ts';
import type { PlainLines } from './plain-lines.ts';

/** What is loaded, as it comes: a record, or lines that need not be looked into. */
export type LoadItem = FileRow | UnreadRow | PlainLines;

/** What goes into one transaction: records, or lines. */
export type LoadPiece = {
  /** Records. */
  readonly count: number;
  readonly lastLine: number;
  /** Nothing comes behind it. */
  readonly isLast: boolean;
  /** Why what is behind it cannot be read: it is not to be kept then, and a bad line of it comes before that. */
  readonly failure?: unknown;
} & ({ readonly lines: PlainLines } | { readonly items: readonly (FileRow | UnreadRow)[] });

/** Lines cost next to nothing each, a transaction does. */
export const linesOfPiece = 20_000;

export function isLines(item: LoadItem): item is PlainLines {
  return 'text' in item;
}

/** Cuts what is loaded into pieces; what is in memory does not grow with it. @param limit of records, where it is less */
export async function* loadPieces(
  items: AsyncIterable<LoadItem>,
  limit = Infinity,
): AsyncGenerator<LoadPiece> {
  let held: Cut | undefined;
  try {
    for await (const cut of cuts(items, limit)) {
      if (held) yield pieceOf(held, false);
      held = cut;
    }
  } catch (error) {
    // what cannot be read keeps nothing back that comes before it
    if (held) yield pieceOf(held, false);
    throw error;
  }
  if (held) yield pieceOf(held, true);
}

type Cut = PlainLines | (FileRow | UnreadRow)[] | Unfinished;

/** Reading failed in the middle of it. */
interface Unfinished {
  readonly begun: PlainLines | (FileRow | UnreadRow)[];
  readonly failure: unknown;
}

function pieceOf(held: Cut, isLast: boolean): LoadPiece {
  if ('failure' in held) return { ...pieceOf(held.begun, isLast), failure: held.failure };
  if (Array.isArray(held)) return { items: held, count: held.length, lastLine: held.at(-1)!.line, isLast };
  return { lines: held, count: held.rows, lastLine: held.line + held.rows - 1, isLast };
}

/** What cannot be read comes as the last one, so that what was begun before it is known. */
async function* withFailure(
  items: AsyncIterable<LoadItem>,
): AsyncGenerator<LoadItem | Pick<Unfinished, 'failure'>> {
  try {
    yield* items;
  } catch (failure) {
    yield { failure };
  }
}

async function* cuts(items: AsyncIterable<LoadItem>, limit: number): AsyncGenerator<Cut> {
  const [maxLines, maxRows] = [Math.min(limit, linesOfPiece), Math.min(limit, pieceOfRows.size)];
  let lines: PlainLines | undefined;
  let rows: (FileRow | UnreadRow)[] = [];
  let weight = 0;
  for await (const item of withFailure(items)) {
    if ('failure' in item) {
      const begun = lines ?? rows;
      if (Array.isArray(begun) && begun.length === 0) throw item.failure;
      return yield { begun, failure: item.failure };
    }
    if (isLines(item)) {
      if (rows.length > 0) yield rows;
      [rows, weight] = [[], 0];
      lines = lines ? joinLines(lines, item) : item;
      while (lines && (lines.rows >= maxLines || lines.text.length > pieceOfRows.weight)) {
        const [full, others] = cutLines(lines, maxLines);
        yield full;
        lines = others;
      }
      continue;
    }
    if (lines) yield lines;
    lines = undefined;
    const added = pieceOfRows.weigh(item);
    if (rows.length > 0 && (rows.length >= maxRows || weight + added > pieceOfRows.weight)) {
      yield rows;
      [rows, weight] = [[], 0];
    }
    rows.push(item);
    weight += added;
  }
  if (lines) yield lines;
  if (rows.length > 0) yield rows;
}
