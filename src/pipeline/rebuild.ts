import type { Pool } from 'pg';
import type { Target } from '../change/target.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { tableName } from '../config/table-ref.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { placesOf } from '../log/archive-places.ts';
import { emendVersion } from '../observe/version.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { rebuildTarget } from '../verify/rebuild.ts';
import type { Rebuild } from '../verify/rebuild.ts';
import { writeAsKnown } from '../verify/write-as-known.ts';
import type { AsKnown } from '../verify/write-as-known.ts';
import { explainQueryError } from './at.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { requireReason } from './require-reason.ts';

export interface RebuildRequest {
  /** Exchange what differs, and not only tell it. */
  readonly swap?: boolean;
  /** Why; kept for ever. A swap wants one. */
  readonly reason?: string | undefined;
  /** Manifests beside archived files that are no longer where they were written. */
  readonly archives?: readonly string[];
  /** Differences to list. */
  readonly limit?: number;
  readonly onProgress?: (text: string) => void;
}

export interface RebuildIntoRequest extends Omit<RebuildRequest, 'swap'> {
  /** The table to write, `schema.table`; it must not be there. */
  readonly into: string;
  /** As was believed then; left out: the settled present. */
  readonly knownAt?: string | undefined;
}

/** A row that is committed, and not merged after so long, is lost or nobody is merging; a backfill is checked for so long. */
const graceMs = 30_000;

/** Each sort of a slice may stay in memory. */
const settings = { jit: 'off', work_mem: '64MB' };

/**
 * Folds a target whole from its log, compares, and with `swap` exchanges what differs, all at once; see `verify/rebuild.ts`.
 *
 * @throws EmendError `bad_arguments` for a swap without a reason; `rebuild_busy` while the target is rebuilt by another process
 */
export async function rebuild(
  config: ResolvedConfig,
  name: string,
  { swap = false, reason, archives = [], limit = 1_000, onProgress }: RebuildRequest = {},
): Promise<Rebuild> {
  if (swap || reason !== undefined) requireReason(reason ?? '');
  const places = await placesOf(archives);
  return withTarget(config, name, (servers) =>
    rebuildTarget({
      ...servers,
      archives: places,
      swap,
      reason: reason ?? null,
      logic: emendVersion(),
      graceMs,
      limit,
      ...(onProgress ? { onProgress } : {}),
    }),
  );
}

/**
 * Writes a target as it was known at a time into a new table; see `verify/write-as-known.ts`.
 *
 * @throws EmendError `bad_arguments` for a table that is there already; `not_settled` for a time that is not known
 */
export async function rebuildInto(
  config: ResolvedConfig,
  name: string,
  { into, knownAt, reason, archives = [], limit = 1_000, onProgress }: RebuildIntoRequest,
): Promise<AsKnown> {
  const table = tableName(into);
  if (table === null) {
    throw new EmendError('bad_arguments', `--into ${into} is not the name of a table`, {
      remedy: 'Write --into schema.table; a name with capitals or blanks goes in double quotes.',
    });
  }
  if (reason !== undefined) requireReason(reason);
  const places = await placesOf(archives);
  return withTarget(config, name, async (servers) => {
    try {
      return await writeAsKnown({
        ...servers,
        archives: places,
        into: table,
        knownAt: knownAt ?? null,
        reason: reason ?? null,
        logic: emendVersion(),
        limit,
        ...(onProgress ? { onProgress } : {}),
      });
    } catch (error) {
      throw explainTime(error, servers.target, knownAt);
    }
  });
}

function explainTime(error: unknown, target: Target, knownAt: string | undefined): unknown {
  const code = sqlState(error);
  if (code === '55000') return explainQueryError(error, target);
  if (code !== '22007' && code !== '22008') return error;
  return new EmendError('bad_arguments', `--known-at ${knownAt} is not a time`, {
    remedy: 'Write it as 2026-11-29 12:00:00+00.',
    cause: error,
  });
}

interface Servers {
  readonly source: Pool;
  readonly store: Pool;
  readonly target: Target;
}

function withTarget<T>(
  config: ResolvedConfig,
  name: string,
  body: (servers: Servers) => Promise<T>,
): Promise<T> {
  const declaration = findTarget(config.targets, name);
  return withServers(config, { role: 'rebuild', max: 4, settings }, async ({ source, store }) => {
    await requireInstall(store);
    const [target] = await withClient(store, (client) => resolveTargets(client, [declaration]));
    return body({ source, store, target: target! });
  });
}
