import type { ClientBase, Pool } from 'pg';
import { carryOut } from '../../src/backfill/carry-out.ts';
import { requestsIn } from '../../src/backfill/request.ts';
import type { Request } from '../../src/backfill/request.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import { withClient } from '../../src/db/transaction.ts';
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
  for (const request of requests) await carryOut({ source, store, resolve }, request);
}

/** What a worker in a process of its own is told. */
export interface WorkerTask {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly targets: ResolvedConfig['targets'];
  readonly backfill: string;
}
