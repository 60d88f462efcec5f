import type { Pool } from 'pg';
import { carryOut } from '../backfill/carry-out.ts';
import type { BackfillTarget } from '../backfill/promotion.ts';
import { requestLog, requestsIn } from '../backfill/request.ts';
import type { Batch, LogRows } from '../change/batch.ts';
import type { Handle, Publish } from '../change/ports.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { prepareTargets } from '../merge/prepared-target.ts';
import type { Queue } from '../queue/queue.ts';
import { resolveTargets } from '../store/resolve-targets.ts';

/**
 * Publishes batches of the reader: live corrections on their lane, whole (law 7), and each request of a backfill as a job of
 * its own on the other one, so that no request runs inside a merge.
 */
export function publishByLane({
  publish,
  publishRequests,
}: Pick<Queue, 'publish' | 'publishRequests'>): Publish {
  return async (batches) => {
    const live = batches.map(withoutRequests).filter(({ parts }) => parts.length > 0);
    const requests = batches.flatMap(({ parts }) => parts.filter(isRequests).flatMap(toJobs));
    if (live.length > 0) await publish(live);
    if (requests.length > 0) await publishRequests(requests);
  };
}

function isRequests({ target }: LogRows): boolean {
  return target === requestLog;
}

function withoutRequests(batch: Batch): Batch {
  if (!batch.parts.some(isRequests)) return batch;
  const parts = batch.parts.filter((part) => !isRequests(part));
  return { ...batch, parts, rows: parts.reduce((sum, { values }) => sum + (values[0]?.length ?? 0), 0) };
}

/** One job a request, named by it: the same request is not on the queue twice. */
export function toJobs(rows: LogRows): Batch[] {
  const ids = rows.values[rows.columns.indexOf('_id')]!;
  return ids.map((id, place) => {
    const values = rows.values.map((column) => [column[place] ?? null]);
    const bytes = values.reduce((sum, [text]) => sum + (text?.length ?? 0), 0);
    return {
      id: `r-${id}`,
      parts: [{ ...rows, values }],
      rows: 1,
      bytes,
      endLsn: 0n,
      committedAtMs: Date.now(),
    };
  });
}

/** The handler of the lane of backfills. */
export function handleRequests(config: ResolvedConfig, servers: { source: Pool; store: Pool }): Handle {
  const resolve = (names: readonly string[]): Promise<BackfillTarget[]> =>
    resolveNamed(config, servers.store, names);
  const work = { ...servers, resolve, promoteTimes: config.promote };
  return async ({ parts }) => {
    for (const request of parts.flatMap(requestsIn)) await carryOut(work, request);
  };
}

/** Anew for each request: a migration may have come in between. */
async function resolveNamed(
  { targets }: ResolvedConfig,
  store: Pool,
  names: readonly string[],
): Promise<BackfillTarget[]> {
  const declarations = targets.filter(({ name }) => names.includes(name));
  const unknown = names.find((name) => !declarations.some((declaration) => declaration.name === name));
  if (unknown !== undefined) {
    throw new EmendError(
      'not_migrated',
      `a backfill has rows of ${unknown}, which this worker does not know`,
      {
        remedy: `Add targets.${unknown} to the configuration of the workers, run emend migrate, and restart them; the backfill waits meanwhile.`,
      },
    );
  }
  const resolved = await withClient(store, (client) => resolveTargets(client, declarations));
  const prepared = await prepareTargets(store, resolved, '$1::timestamptz');
  return [...prepared.values()].sort((one, other) => one.number - other.number);
}
