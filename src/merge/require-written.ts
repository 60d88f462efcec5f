import type { Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import { targetTable } from '../store/names.ts';

/** SQLSTATE of `emend.require_written`. */
export const notAsDecided = 'EM005';

/**
 * A condition, once a statement: as many rows of the target were written, and went, as were decided. A trigger of the table that
 * returns null would leave it another one than the log says, in silence (law 8).
 *
 * @param decided SQL: how many rows were to be written, or to go
 * @param done the common table expressions that do it, each with a row for each
 */
export function allWritten(target: Target, decided: string, done: readonly string[]): string {
  return `(select emend.require_written(${literal(targetTable(target))}, ${decided}, ${done.map(countOf).join(' + ')}))`;
}

/** SQL: the rows of a relation. */
export function countOf(relation: string): string {
  return `(select count(*) from ${relation})`;
}
