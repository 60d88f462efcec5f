import type { Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import { targetTable } from '../store/names.ts';

/**
 * A condition, once a statement: as many rows of the target were written, and went, as were decided. A trigger of the table that
 * returns null would leave it another one than the log says, in silence (law 8).
 *
 * @param decided SQL: relations whose rows are written or go
 * @param done the common table expressions that do it, each with a row for each
 */
export function allWritten(target: Target, decided: readonly string[], done: readonly string[]): string {
  const count = (relations: readonly string[]) =>
    relations.map((relation) => `(select count(*) from ${relation})`).join(' + ');
  return `(select emend.require_written(${literal(targetTable(target))}, ${count(decided)}, ${count(done)}))`;
}
