import { is, SQL } from 'drizzle-orm';
import { EmendError } from '../errors.ts';
import type { AppendColumn } from './append-columns.ts';

/** Where a value stands. */
interface Place {
  readonly column: AppendColumn;
  readonly row: number;
  readonly property: string;
}

/** The text that Postgres casts to the column's type (law 9). Undefined, a left-out value, becomes null. */
export function textOf(value: unknown, place: Place): string | null {
  if (value === null || value === undefined) return null;
  if (Number.isNaN(value)) throw notANumber(place);
  if (isJson(place.column) && typeof value !== 'string') return jsonText(value, place);
  return checked(plainText(value, place), place);
}

function plainText(value: unknown, place: Place): string {
  switch (typeof value) {
    case 'string':
      return value;
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'number':
      return numberText(value, place);
    case 'object':
      return objectText(value as object, place);
    case 'undefined':
    case 'function':
    case 'symbol':
      throw invalid(
        place,
        `is a ${typeof value}`,
        'Give text, a number, a boolean, a Date, bytes or an array.',
      );
  }
}

/** Beyond 2^53 a number has become its neighbour before it came here; for a float column that is what it is. */
function numberText(value: number, place: Place): string {
  if (Number.isNaN(value)) throw notANumber(place);
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && !isFloat(place.column)) {
    throw invalid(
      place,
      'is a number beyond what JavaScript holds exactly',
      'Give it as a bigint or as text.',
    );
  }
  return Object.is(value, -0) ? '-0' : String(value);
}

/** Nearly always a computation that failed. NaN is a value of Postgres all the same, and json would make null of it. */
function notANumber(place: Place): EmendError {
  return invalid(place, 'is NaN', "Mend what computes it; where it is meant, give the text 'NaN'.");
}

function objectText(value: object, place: Place): string {
  if (value instanceof Date) return dateText(value, place);
  if (value instanceof Uint8Array) {
    return `\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}`;
  }
  if (Array.isArray(value)) return arrayText(value, place);
  if (is(value, SQL)) {
    throw invalid(place, 'is an SQL expression', 'Give the value itself, or write a plain insert … select.');
  }
  throw invalid(place, 'is an object, and the column is not json', 'Give its text as Postgres writes it.');
}

function dateText(value: Date, place: Place): string {
  const year = value.getUTCFullYear();
  if (Number.isNaN(year)) throw invalid(place, 'is an invalid Date', 'Give a date, or its text.');
  if (year < 1 || year > 9999) {
    throw invalid(
      place,
      'is a Date outside the years 1 to 9999',
      "Give it as text: '0044-03-15 BC', 'infinity'.",
    );
  }
  const text = value.toISOString();
  // Postgres would drop the time, and with it the day of whoever made it at his own midnight
  if (place.column.type === 'date' && !text.endsWith('T00:00:00.000Z')) {
    throw invalid(
      place,
      'is a Date with a time of day, and the column a date',
      "Give the day as text ('2026-01-01'), or a Date of midnight in UTC.",
    );
  }
  return text;
}

function arrayText(values: readonly unknown[], place: Place): string {
  return arrayLiteral(
    values.map((value) => (value === null || value === undefined ? null : plainText(value, place))),
    (index) => Array.isArray(values[index]),
  );
}

/** An array as Postgres reads it. Inner arrays are not quoted. */
export function arrayLiteral(
  texts: readonly (string | null)[],
  isArray: (index: number) => boolean = () => false,
): string {
  const elements = texts.map((text, index) => {
    if (text === null) return 'NULL';
    return isArray(index) ? text : `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
  });
  return `{${elements.join(',')}}`;
}

function jsonText(value: unknown, place: Place): string {
  try {
    const text = JSON.stringify(value) as string | undefined;
    if (text !== undefined) return text;
  } catch (error) {
    throw invalid(place, 'cannot be written as JSON', 'Give JSON text.', error);
  }
  throw invalid(place, 'cannot be written as JSON', 'Give JSON text.');
}

/** Half of a surrogate pair would be replaced by U+FFFD on the way, without a word. */
function checked(text: string, place: Place): string {
  if (!/[\0\p{Surrogate}]/u.test(text)) return text;
  const what = text.includes('\0') ? 'has a NUL character' : 'has half of a surrogate pair';
  throw invalid(place, `${what}, which Postgres cannot hold`, 'Remove it, or use a bytea column.');
}

/** Never the value itself: it may be anybody's. */
function invalid({ row, property }: Place, what: string, remedy: string, cause?: unknown): EmendError {
  return new EmendError('correction_invalid', `row ${row}: ${JSON.stringify(property)} ${what}`, {
    remedy,
    cause,
  });
}

function isJson({ type }: AppendColumn): boolean {
  return type === 'json' || type === 'jsonb';
}

function isFloat({ type }: AppendColumn): boolean {
  return type === 'real' || type === 'double precision';
}
