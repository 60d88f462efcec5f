import { sql } from 'drizzle-orm';
import type { SQLWrapper } from 'drizzle-orm';

/** A statement cut at its parameters: `texts` has one entry more than `values`. */
export interface Query {
  readonly texts: readonly string[];
  /** Texts only, so that every driver sends them alike. */
  readonly values: readonly (string | null)[];
}

/** A Drizzle database or transaction, of whatever driver. */
interface DrizzleExecutor {
  execute(query: SQLWrapper): PromiseLike<unknown>;
}

/** A pg client or pool, or anything like it. */
interface QueryExecutor {
  query(text: string, values: (string | null)[]): PromiseLike<{ rows: unknown[] }>;
}

/** What corrections are written with: the application's own transaction. */
export type Executor = DrizzleExecutor | QueryExecutor;

export async function runQuery<Row>(tx: Executor, { texts, values }: Query): Promise<Row[]> {
  if (isDrizzle(tx)) {
    const result = await tx.execute(sql(Object.assign([...texts], { raw: texts }), ...values));
    // node-postgres and most others give { rows }, postgres.js gives the rows themselves
    return (Array.isArray(result) ? result : (result as { rows: unknown[] }).rows) as Row[];
  }
  const text = texts.reduce((before, after, place) => `${before}$${place}${after}`);
  const { rows } = await tx.query(text, [...values]);
  return rows as Row[];
}

function isDrizzle(tx: Executor): tx is DrizzleExecutor {
  return typeof (tx as Partial<DrizzleExecutor>).execute === 'function';
}
