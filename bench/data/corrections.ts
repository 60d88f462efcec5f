import type { Batch, LogRows } from '../../src/change/batch.ts';
import type { Random } from '../harness/random.ts';

/**
 * The data of the merge benches. At the beginning, each key has `piecesPerKey` pieces in a row over 90 days; then come
 * corrections of 1 to 10 days anywhere in them. The same corrections, taken as facts, each restate one of the key's rows.
 */
export const days = 90;
export const piecesPerKey = 10;
export const daysPerPiece = days / piecesPerKey;

export interface Correction {
  /** `_id`, and so the version: greater than all before. */
  readonly id: number;
  readonly key: number;
  /** As a fact: which of the key's rows. */
  readonly row: number;
  readonly from: number;
  /** The first day that does not belong to it any more. */
  readonly to: number;
}

export interface CorrectionSource {
  take(count: number): Correction[];
}

/** Corrections that come after the rows of the beginning, whose ids are 1 to keys x pieces. */
export function correctionsOf(keys: number, random: Random): CorrectionSource {
  let id = keys * piecesPerKey;
  return {
    take: (count) =>
      Array.from({ length: count }, () => {
        const length = 1 + random.below(10);
        const from = random.below(days - length + 1);
        id += 1;
        return { id, key: random.below(keys), row: random.below(piecesPerKey), from, to: from + length };
      }),
  };
}

export type KeyForm = 'text' | 'integer';

/** A key as the tables of the benches have it; `keySql` is the same in SQL. */
export function keyText(form: KeyForm, key: number): string {
  return form === 'integer' ? String(key) : `product-${String(key).padStart(8, '0')}`;
}

export function keySql(form: KeyForm, key: string): string {
  return form === 'integer' ? key : `'product-' || lpad((${key})::text, 8, '0')`;
}

/** The value of a row is a function of its version, so that a value in the wrong place is seen. */
export function priceText(id: number): string {
  return (id % 10_000).toFixed(2);
}

export function priceSql(id: string): string {
  return `(${id} % 10000)::numeric(10, 2)`;
}

const firstDay = Date.UTC(2026, 0, 1);

export function dayText(day: number): string {
  return new Date(firstDay + day * 86_400_000).toISOString().slice(0, 10);
}

export function daySql(day: string): string {
  return `(date '2026-01-01' + (${day})::int)`;
}

/** The columns of a target's row, as the server's text. */
export type RowColumns = Readonly<Record<string, (correction: Correction) => string>>;

/** A batch as capture hands it over: the log rows of one target, column-wise text. */
export function batchOf(target: string, columns: RowColumns, corrections: readonly Correction[]): Batch {
  const fields: Record<string, (correction: Correction) => string | null> = {
    ...columns,
    _id: ({ id }) => String(id),
    _op: () => 'upsert',
    _nonce: ({ id }) => String(id * 7_919),
    _recorded_at: () => '2026-11-29 12:00:00.123456+00',
    _actor: () => 'bench',
    _reason: () => null,
  };
  const part: LogRows = {
    target,
    columns: Object.keys(fields),
    values: Object.values(fields).map((field) => corrections.map(field)),
  };
  return { id: 'b-bench', parts: [part], rows: corrections.length, bytes: 0, endLsn: 0n, committedAtMs: 0 };
}

export function slices<T>(list: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, index) =>
    list.slice(index * size, (index + 1) * size),
  );
}
