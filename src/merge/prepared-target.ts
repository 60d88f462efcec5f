import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { arrivedParameters } from './arrived.ts';
import { factsMergeSql } from './facts-merge.ts';
import { overrideMergeSql } from './override-merge.ts';
import { untilNextMergeSql } from './until-next-merge.ts';

/** A target with the statement that merges into it. */
export interface PreparedTarget {
  readonly target: Target;
  /** The target's place in the order of locks, from `emend.target`. */
  readonly number: number;
  readonly sql: string;
}

/**
 * @param k the expression of K, which may read the statement's first parameter
 * @throws EmendError `not_migrated`
 */
export async function prepareTargets(
  db: Pool | ClientBase,
  targets: readonly Target[],
  k: string,
): Promise<Map<string, PreparedTarget>> {
  const numbers = await readNumbers(db);
  return new Map(
    targets.map((target) => {
      const number = numbers.get(target.name);
      if (number === undefined) {
        throw new EmendError('not_migrated', `target ${target.name} has not been migrated`, {
          remedy: 'Run emend migrate.',
        });
      }
      return [target.name, { target, number, sql: mergeSql(target, k) }];
    }),
  );
}

async function readNumbers(db: Pool | ClientBase): Promise<Map<string, number>> {
  const { rows } = await db.query<{ name: string; number: string }>(
    `select name, number::text as number from emend.target`,
  );
  return new Map(rows.map((row) => [row.name, Number(row.number)]));
}

function mergeSql(target: Target, k: string): string {
  if (target.kind === 'facts') return factsMergeSql(target, k);
  return target.mode === 'override' ? overrideMergeSql(target, k) : untilNextMergeSql(target, k);
}

/** Below this many rows a plan that is made once serves; above, the planner has to know how many rows there are. */
const preparedRows = 64;

/** Runs the merge of rows of one target. Their bucket locks must be held. */
export async function mergeRows(
  client: ClientBase,
  { target, sql }: PreparedTarget,
  rows: LogRows,
  kParameter: string,
): Promise<void> {
  const few = (rows.values[0]?.length ?? 0) <= preparedRows;
  await client.query({
    ...(few ? { name: `emend merge ${target.name}` } : {}),
    text: sql,
    values: [kParameter, ...arrivedParameters(target, rows)],
  });
}
