import type { ClientBase } from 'pg';
import { verdictOf } from '../db/sqlstate.ts';

/**
 * Runs a statement over items, in a transaction. Where some are at fault, halves them inside savepoints until those stand
 * alone, and tells each to `onBad`, which throws to stop; the results of the others come in their order.
 */
export async function runHalving<T, R>(
  client: ClientBase,
  items: readonly T[],
  run: (part: readonly T[]) => Promise<readonly R[]>,
  onBad: (item: T, error: unknown) => void | Promise<void>,
): Promise<R[]> {
  if (items.length === 0) return [];
  await client.query('savepoint part');
  try {
    const results = await run(items);
    await client.query('release savepoint part');
    return [...results];
  } catch (error) {
    if (verdictOf(error) !== 'halve') throw error;
    await client.query('rollback to savepoint part; release savepoint part');
    if (items.length === 1) {
      await onBad(items[0]!, error);
      return [];
    }
  }
  const middle = Math.ceil(items.length / 2);
  return [
    ...(await runHalving(client, items.slice(0, middle), run, onBad)),
    ...(await runHalving(client, items.slice(middle), run, onBad)),
  ];
}
