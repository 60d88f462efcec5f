import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { placesOf } from '../log/archive-places.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { verifyTarget } from '../verify/verify.ts';
import type { Verification } from '../verify/verify.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { wholeKey } from './key-arguments.ts';

export interface VerifyRequest {
  /** Left out: all of them. */
  readonly target?: string | undefined;
  /** One key of the target; empty: all of them. */
  readonly key?: readonly string[];
  readonly repair?: boolean;
  /** Manifests beside archived files that are no longer where they were written. */
  readonly archives?: readonly string[];
  readonly limit?: number;
  readonly onProgress?: (target: string, text: string) => void;
}

/** A row that is committed, and not merged after so long, is lost or nobody is merging. */
const graceMs = 30_000;

/** Each sort of a slice may stay in memory. */
const settings = { jit: 'off', work_mem: '64MB' };

/** Compares targets with the fold of their logs; see `verify/verify.ts`. */
export async function verify(config: ResolvedConfig, request: VerifyRequest = {}): Promise<Verification[]> {
  const { target: name, key = [], repair = false, archives = [], limit = 1_000, onProgress } = request;
  if (name === undefined && key.length > 0) {
    throw new EmendError('bad_arguments', '--key is of one target, and none is given', {
      remedy: `Write emend verify <target> ${key.map((each) => `--key ${each}`).join(' ')}`,
    });
  }
  const declarations = name === undefined ? config.targets : [findTarget(config.targets, name)];
  const places = await placesOf(archives);
  return withServers(config, { role: 'verify', max: 2, settings }, async ({ source, store }) => {
    await requireInstall(store);
    const targets = await withClient(store, (client) => resolveTargets(client, declarations));
    const verifications: Verification[] = [];
    for (const target of targets) {
      verifications.push(
        await verifyTarget({
          source,
          store,
          target,
          keys: key.length === 0 ? null : wholeKey(target, key).map((text) => [text]),
          repair,
          archives: places,
          graceMs,
          limit,
          onProgress: (text) => onProgress?.(target.name, text),
        }),
      );
    }
    return verifications;
  });
}
