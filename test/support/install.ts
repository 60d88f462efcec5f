import { afterAll } from 'vitest';
import type { Pool } from 'pg';
import { resolveConfig } from '../../src/config/config.ts';
import type { EmendConfig } from '../../src/config/define-config.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import type { Target } from '../../src/change/target.ts';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { mergeSessions } from '../../src/merge/merge.ts';
import { createLogger } from '../../src/observe/logger.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import type { Pipeline, Role } from '../../src/pipeline/pipeline.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { createDatabases } from './databases.ts';

export interface InstallOptions {
  /** Run in the store before the migration. */
  readonly ddl: string;
  readonly targets: EmendConfig['targets'];
  /** Targets whose tables have rows by then. */
  readonly adopt?: readonly string[];
  /** Default: Redis. */
  readonly queue?: 'redis' | 'postgres';
  readonly sameDatabase?: boolean;
  /** A Redis of its own, for tests that empty or kill it. */
  readonly redisUrl?: string;
  /** `queue.maxBytes`, for tests that fill the queue. */
  readonly maxQueueBytes?: number;
  /** A source in a server of its own, for tests that restart, restore or replace it. */
  readonly sourceUrl?: string;
}

/** emend as a user has it: two databases, migrated, with everything that runs between them at hand. */
export interface Install {
  readonly config: ResolvedConfig;
  readonly source: Pool;
  readonly store: Pool;
  readonly targets: readonly Target[];
  start(...roles: Role[]): Promise<Pipeline>;
  wait(): Promise<void>;
}

/** What a configuration without addresses reads them from. */
export function environmentOf({ config: { source, store, queue } }: Pick<Install, 'config'>) {
  return {
    SOURCE_URL: source.url,
    STORE_URL: store.url,
    ...(queue.redis === null ? {} : { REDIS_URL: queue.redis }),
  };
}

export async function createInstall(name: string, options: InstallOptions): Promise<Install> {
  const databases = await createDatabases(name, { sameDatabase: options.sameDatabase === true });
  const sourceUrl = options.sourceUrl ?? databases.sourceUrl;
  const config = resolveConfig(
    {
      source: { url: sourceUrl },
      store: { url: databases.storeUrl },
      queue: {
        maxBytes: options.maxQueueBytes,
        ...(options.queue === 'postgres' ? {} : { redis: options.redisUrl ?? databases.redisUrl }),
      },
      targets: options.targets,
    },
    {},
  );
  const source = createPool({ url: sourceUrl, applicationName: 'emend test' });
  const store = createPool({
    url: databases.storeUrl,
    applicationName: 'emend test',
    ...mergeSessions,
  });
  const running: Pipeline[] = [];
  afterAll(async () => {
    await Promise.all(running.map((pipeline) => pipeline.stop()));
    await Promise.all([source.end(), store.end()]);
  });
  await store.query(options.ddl);
  await migrate({ config, print: false, adopt: options.adopt ?? [] });
  return {
    config,
    source,
    store,
    targets: await withClient(store, (client) => resolveTargets(client, config.targets)),
    start: async (...roles) => {
      const log = createLogger({ level: process.env.EMEND_LOG_LEVEL ?? 'silent' });
      const pipeline = await startPipeline({
        config,
        roles: roles.length > 0 ? roles : ['reader', 'worker'],
        log,
      });
      pipeline.ended.catch(() => {});
      running.push(pipeline);
      return pipeline;
    },
    wait: async () => {
      await waitUntilMerged({ config, timeoutMs: 20_000 });
    },
  };
}
