import { ident } from '../db/identifier.ts';
import type { Column } from '../change/target.ts';

/** `left.k = right.k and …` for columns that are never null, with the types' own equality: what indexes answer to. */
export function sameKey(columns: readonly Column[], left: string, right: string): string {
  return columns
    .map(({ name, equals }) => `${left}.${ident(name)} ${equals} ${right}.${ident(name)}`)
    .join(' and ');
}

/** Typed equality of two values, null equal to null; types without an equality of their own compare as text. */
export function sameValue(column: Column, left: string, right: string): string {
  if (column.equals === null) return `${left}::text is not distinct from ${right}::text`;
  return `(${left} ${column.equals} ${right} or (${left} is null and ${right} is null)) is true`;
}
