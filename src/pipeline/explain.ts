import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient } from '../db/transaction.ts';
import { explainKey } from '../merge/explain-key.ts';
import type { Explanation } from '../merge/explain-key.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { explainQueryError } from './at.ts';
import { openStore } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { wholeKey } from './key-arguments.ts';

export interface ExplainQuestion {
  readonly target: string;
  readonly key: readonly string[];
  readonly validAt?: string | undefined;
  readonly knownAt?: string | undefined;
  /** Corrections to give at most. Default: 100. */
  readonly limit?: number | undefined;
}

/** Every correction behind an answer, the winner first; with a limit, how many below it are left out. */
export async function explain(
  config: ResolvedConfig,
  { target: name, key, validAt, knownAt, limit = 100 }: ExplainQuestion,
): Promise<Explanation> {
  const declaration = findTarget(config.targets, name);
  const store = await openStore(config, { role: 'explain', max: 1 });
  try {
    await requireInstall(store);
    return await withClient(store, async (client) => {
      const [target] = await resolveTargets(client, [declaration]);
      const question = {
        key: wholeKey(target!, key),
        validAt: validAt ?? null,
        knownAt: knownAt ?? null,
        limit,
      };
      return explainKey(client, target!, question).catch((error: unknown) => {
        throw explainQueryError(error, target!) ?? error;
      });
    });
  } finally {
    await store.end();
  }
}
