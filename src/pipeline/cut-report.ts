import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { Log } from '../change/ports.ts';
import { createErrorLog } from '../queue/error-log.ts';

export interface CutStatus {
  /** Larger than `atomicRows` or `atomicBytes`: they became visible in parts (law 7). */
  readonly transactions: number;
  readonly since: string;
  /** Null: there was none. */
  readonly lastAt: string | null;
}

const everyMs = 2_000;

/**
 * Adds what the readers of this process cut to what the store has of it, so that `status` can say it, also when it is stopped.
 *
 * @param count transactions that they have cut since the process began
 */
export function startCutReport(store: Pool, count: () => number, log: Log): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const errors = createErrorLog(log, 'how many transactions were cut cannot be told to the store', {});
  let told = 0;
  const tell = async (): Promise<void> => {
    const now = count();
    if (now === told) return;
    await store.query(
      `update emend.cut set transactions = transactions + $1::bigint, last_at = clock_timestamp()`,
      [now - told],
    );
    told = now;
  };
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      await tell().catch((error: unknown) => errors.report(error));
    }
  })();
  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

export async function readCut(store: Pool): Promise<CutStatus> {
  const { rows } = await store.query<{ cut: string }>(
    `select jsonb_build_object('transactions', transactions, 'since', since::text, 'lastAt', last_at::text)::text as cut
     from emend.cut`,
  );
  return JSON.parse(rows[0]!.cut) as CutStatus;
}
