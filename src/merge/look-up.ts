import type { Target } from '../change/target.ts';
import { ownObject } from '../store/names.ts';

/**
 * Joins rows of a table by a look-up of its own for each row before it. `offset 0` is what keeps it so.
 *
 * Left to the planner, it is a join that may read the whole table: right while the table is small, and the plan of a prepared
 * statement is kept while the table grows, until its statistics are next taken. Merges of one row then take longer and longer.
 */
export function lookUp(select: string, alias: string): string {
  return `cross join lateral (
        ${select}
        offset 0
      ) as ${alias}`;
}

/** Whether any retraction of a target stands. Most targets have none, and then no key needs to be looked up among them. */
export function anyTombstone(target: Target): string {
  return `exists (select from ${ownObject(target, 'tombstone')} t where t._known_to = 'infinity')`;
}

/**
 * Whether `p` is the row at the place that `alias` has. The table too, because partitions use the same places. And no more than that: by
 * place is the only way to join by it, since `enable_seqscan` is off (`mergeSettings`); with the key beside it, a plan that was made
 * while the table was empty reads the whole index.
 */
export function inPlaceOf(alias: string): string {
  return `p.ctid = ${alias}.ctid and p.tableoid = ${alias}.tableoid`;
}

/**
 * Whether `p` is one of the rows whose `tableoid, ctid` a relation has. By place, for the speed of it; the table too, because
 * partitions use the same places. `is true` keeps the second condition out of a join, which is quadratic where the planner
 * takes thousands of rows for a few.
 */
export function placedIn(relation: string): string {
  return `p.ctid = any (array(select ctid from ${relation}))
        and ((p.tableoid, p.ctid) in (select tableoid, ctid from ${relation})) is true`;
}
