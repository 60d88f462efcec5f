import type { LogRows } from '../change/batch.ts';

/**
 * Cuts rows in two until the bad one stands alone (law 8), or returns null for a single row. Parts of several targets are
 * separated first. The halves are merged in transactions of their own: with a bad row in it, the whole cannot be.
 */
export function halve<P extends { readonly rows: LogRows }>(parts: readonly P[]): [P[], P[]] | null {
  if (parts.length > 1) {
    const middle = Math.ceil(parts.length / 2);
    return [parts.slice(0, middle), parts.slice(middle)];
  }
  const part = parts[0];
  const count = part?.rows.values[0]?.length ?? 0;
  if (!part || count < 2) return null;
  const middle = Math.ceil(count / 2);
  return [[slice(part, 0, middle)], [slice(part, middle, count)]];
}

function slice<P extends { readonly rows: LogRows }>(part: P, start: number, end: number): P {
  const values = part.rows.values.map((column) => column.slice(start, end));
  return { ...part, rows: { ...part.rows, values } };
}
