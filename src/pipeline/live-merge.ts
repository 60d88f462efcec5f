import type { Pool } from 'pg';
import type { Handle, Log } from '../change/ports.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withClient } from '../db/transaction.ts';
import { isEmendError } from '../errors.ts';
import { createMerge } from '../merge/merge.ts';
import { resolveTargets } from '../store/resolve-targets.ts';

/**
 * A merge that keeps up with migrations: when the objects of a target have changed since its statements were prepared, they are
 * prepared again and the batch is merged with them. A worker need not be restarted for a new column.
 */
export async function createLiveMerge(config: ResolvedConfig, pool: Pool, log: Log): Promise<Handle> {
  const prepare = async (): Promise<Handle> => {
    const targets = await withClient(pool, (client) => resolveTargets(client, config.targets));
    return createMerge({ pool, targets, log });
  };
  let merge = await prepare();
  let preparing: Promise<Handle> | undefined;
  return async (batch, signal) => {
    try {
      await merge(batch, signal);
    } catch (error) {
      if (!isOutdated(error)) throw error;
      preparing ??= prepare().finally(() => {
        preparing = undefined;
      });
      merge = await preparing;
      log.info({ batch: batch.id }, 'the targets have been migrated; their merges are prepared again');
      await merge(batch, signal);
    }
  };
}

/** EM001: `emend.require_revision`; a column that the log has and this worker does not know: `not_migrated`. */
function isOutdated(error: unknown): boolean {
  return sqlState(error) === 'EM001' || (isEmendError(error) && error.code === 'not_migrated');
}
