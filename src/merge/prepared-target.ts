import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { requireSameIdentity } from '../store/contract.ts';
import { arrivedNumbers, arrivedParameters, arrivedRows, columnsGained } from './arrived.ts';
import { mergeSql } from './merge-sql.ts';

/** A target with the statement that merges into it. */
export interface PreparedTarget {
  readonly target: Target;
  /** The target's place in the order of locks, from `emend.target`. */
  readonly number: number;
  readonly revision: number;
  /** What the statement is called in a session; one name has one text. */
  readonly name: string;
  readonly sql: string;
}

/**
 * @param k the expression of K
 * @param verb names the statement in its session: each k has one of its own
 * @throws EmendError `not_migrated`, and `target_invalid` where it was migrated with another key, period, end or order
 */
export async function prepareTargets(
  db: Pool | ClientBase,
  targets: readonly Target[],
  k: string,
  verb: 'merge' | 'import' = 'merge',
): Promise<Map<string, PreparedTarget>> {
  for (const target of targets) await requireSameIdentity(db, target);
  const migrated = await readMigrated(db);
  return new Map(
    targets.map((target) => {
      const { number, revision } = migrated.get(target.name)!;
      const name = `emend ${verb} ${target.name} ${revision}`;
      // law 9: the only cast between the log and the store
      const sql = mergeSql(target, {
        arrived: arrivedRows(target),
        numbers: arrivedNumbers(target),
        k,
        revision,
      });
      return [target.name, { target, number, revision, name, sql }];
    }),
  );
}

async function readMigrated(
  db: Pool | ClientBase,
): Promise<Map<string, { readonly number: number; readonly revision: number }>> {
  const { rows } = await db.query<{ name: string; number: string; revision: string }>(
    `select name, number::text as number, revision::text as revision from emend.target`,
  );
  return new Map(
    rows.map((row) => [row.name, { number: Number(row.number), revision: Number(row.revision) }]),
  );
}

/**
 * Runs the merge of rows of one target. Their bucket locks must be held. Prepared, whatever the number of rows: all that it
 * looks up it looks up by key (`lookUp`), so no plan is the wrong one, and planning costs more than merging a few rows.
 */
export async function mergeRows(
  client: ClientBase,
  { target, name, sql }: PreparedTarget,
  rows: LogRows,
  defaults: Defaults,
): Promise<void> {
  await client.query({ name, text: sql, values: arrivedParameters(target, rows, defaults) });
}

/** Texts of columns that some rows were written without. */
export type Defaults = ReadonlyMap<string, string | null>;

/** What the store gives to rows that know nothing of a column; asked only when there are such columns. */
export async function readDefaults(
  client: Pool | ClientBase,
  target: Target,
  rows: LogRows,
): Promise<Defaults> {
  const columns = columnsGained(target, rows);
  if (columns.length === 0) return new Map();
  const defaults = columns.map(({ defaultSql }, index) => `(${defaultSql})::text as c${index}`);
  const { rows: texts } = await client.query<Record<string, string | null>>(`select ${defaults.join(', ')}`);
  return new Map(columns.map(({ name }, index) => [name, texts[0]?.[`c${index}`] ?? null]));
}
