import type { FileRow, UnreadRow } from './file-row.ts';

/** Some items of a stream that go into one transaction. */
export interface Piece<T> {
  readonly items: readonly T[];
  /** Nothing comes behind it. */
  readonly isLast: boolean;
}

export interface PieceLimits<T> {
  /** Items. */
  readonly size: number;
  /** The same together; an item that is heavier stands alone. */
  readonly weight: number;
  readonly weigh: (item: T) => number;
}

/** What a transaction and the memory take well, in rows and in characters. */
export const pieceOfRows: PieceLimits<FileRow | UnreadRow> = {
  size: 5_000,
  weight: 8_000_000,
  weigh: (row) =>
    'values' in row ? Object.values(row.values).reduce((sum, text) => sum + (text?.length ?? 0), 0) : 0,
};

/** Cuts a stream into pieces; what is in memory does not grow with the stream. */
export async function* pieces<T>(items: AsyncIterable<T>, limits: PieceLimits<T>): AsyncGenerator<Piece<T>> {
  let piece: T[] = [];
  let weight = 0;
  for await (const item of items) {
    const added = limits.weigh(item);
    if (piece.length > 0 && (piece.length >= limits.size || weight + added > limits.weight)) {
      yield { items: piece, isLast: false };
      [piece, weight] = [[], 0];
    }
    piece.push(item);
    weight += added;
  }
  if (piece.length > 0) yield { items: piece, isLast: true };
}
