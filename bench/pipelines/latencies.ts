import { setTimeout as sleep } from 'node:timers/promises';
import type { Stream } from '../data/stream.ts';
import { createRandom } from '../harness/random.ts';
import type { EmendInstall } from './emend-install.ts';
import { insertInto } from './writer.ts';

export interface Pace {
  readonly first: number;
  readonly perTransaction: number;
  readonly transactionsPerSecond: number;
  /** Whether to write one more transaction, after so many milliseconds. */
  readonly goesOn: (elapsedMs: number) => boolean;
}

/** Written at a pace, which no slowness of the pipeline slows down. Returns the number behind the last row. */
export async function writePaced(install: EmendInstall, stream: Stream, pace: Pace): Promise<number> {
  const sql = insertInto(`corrections.${stream.target}`, stream)(stream.rowsSql('$1::bigint', '$2::bigint'));
  // uneven, so that it does not fall into step with anything that ticks
  const random = createRandom(pace.first);
  const startedAt = performance.now();
  let dueAt = startedAt;
  let next = pace.first;
  while (pace.goesOn(performance.now() - startedAt)) {
    await install.source.pool.query({
      text: sql,
      values: [next, next + pace.perTransaction - 1],
      name: 'write',
    });
    next += pace.perTransaction;
    dueAt += (random.below(2_001) / 1_000) * (1_000 / pace.transactionsPerSecond);
    const waitMs = dueAt - performance.now();
    if (waitMs > 0) await sleep(waitMs);
  }
  return next;
}

/**
 * Milliseconds from commit to visible of each row that was written from `first` on, by the commit timestamps of both servers, which
 * run on one clock; nobody polls. A server stamps a commit before it flushes it: the source's flush is in the figure, the
 * store's is not. So it is the time from the return of COMMIT to the visible row, as far as both flushes take as long.
 *
 * The rows have to be of new keys: a row that stands was written by the merge that brought it.
 */
export async function latenciesOf(
  { source, store }: EmendInstall,
  { target }: Stream,
  { first, end }: { readonly first: number; readonly end: number },
): Promise<number[]> {
  // the value of a row is its number
  const stampsOf = async (pool: EmendInstall['store']['pool'], table: string, xid: string) => {
    const { rows } = await pool.query<{ n: string; at: string }>(
      `select amount::bigint::text as n, (extract(epoch from pg_xact_commit_timestamp(${xid})) * 1000)::text as at
       from ${table} where amount >= $1 and amount < $2`,
      [first, end],
    );
    return new Map(rows.map(({ n, at }) => [n, Number(at)]));
  };
  const written = await stampsOf(source.pool, `corrections.${target}`, '_xid::xid');
  const visible = await stampsOf(store.pool, `public.${target}`, 'xmin');
  return [...written].map(([n, at]) => {
    const seenAt = visible.get(n);
    if (seenAt === undefined) throw new Error(`row ${n} is not visible`);
    return seenAt - at;
  });
}
