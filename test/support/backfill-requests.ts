import type { ClientBase, Pool } from 'pg';
import { carryOut } from '../../src/backfill/carry-out.ts';
import { requestsIn } from '../../src/backfill/request.ts';
import type { Request } from '../../src/backfill/request.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { mergeSettings } from '../../src/merge/merge.ts';
import { prepareTargets } from '../../src/merge/prepared-target.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';

export interface Servers {
  readonly source: Pool;
  readonly store: Pool;
}

/** The requests of a backfill, in the order in which they were asked. */
export async function readRequests(source: Pool | ClientBase, backfill: string): Promise<Request[]> {
  const { fields, rows } = await source.query<Record<string, string | null>>(
    `select * from corrections._request where backfill = $1 order by _id`,
    [backfill],
  );
  const columns = fields.map(({ name }) => name);
  return requestsIn({
    target: '_request',
    columns,
    values: columns.map((column) => rows.map((row) => row[column] ?? null)),
  });
}

/** Carries them out one after the other, as a worker would, without a queue. What is busy is not tried again. */
export async function carryOutRequests(
  { source, store }: Servers,
  declarations: ResolvedConfig['targets'],
  requests: readonly Request[],
): Promise<void> {
  const targets = await withClient(store, (client) => resolveTargets(client, declarations));
  const prepared = [...(await prepareTargets(store, targets, '$1::timestamptz')).values()];
  const resolve = async (names: readonly string[]) =>
    prepared.filter(({ target }) => names.includes(target.name));
  await withStaging(store, async (staging) => {
    for (const request of requests) await carryOut({ source, store: staging, resolve }, request);
  });
}

/** Lends a pool as workers have it for backfills: not of `mergeSessions`, whose clients take no COPY. */
export async function withStaging(store: Pool, body: (staging: Pool) => Promise<void>): Promise<void> {
  const url = store.options.connectionString!;
  const staging = createPool({ url, applicationName: 'emend test staging', settings: mergeSettings });
  try {
    await body(staging);
  } finally {
    await staging.end();
  }
}

/** What a worker in a process of its own is told. */
export interface WorkerTask {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly targets: ResolvedConfig['targets'];
  readonly backfill: string;
}
