import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import { startBenchServer } from './server.ts';
import type { BenchServer, ServerOptions } from './server.ts';

/** What a comparison end to end needs. The server itself is the store's; the source has one of its own. */
export interface BenchServers extends BenchServer {
  readonly source: BenchServer;
  /** Started when it is first asked for. */
  redisUrl(): Promise<string>;
}

export async function startBenchServers(dir: string, options: ServerOptions): Promise<BenchServers> {
  mkdirSync(dir, { recursive: true });
  const store = await startBenchServer(join(dir, 'store'), options);
  let redis: LocalRedis | undefined;
  try {
    const source = await startBenchServer(join(dir, 'source'), options);
    return {
      ...store,
      source,
      redisUrl: async () => {
        redis ??= await startRedis({ dir: join(dir, 'redis'), temporary: true });
        return redis.url;
      },
      stop: async () => {
        await redis?.stop();
        await source.stop();
        await store.stop();
      },
    };
  } catch (error) {
    await store.stop();
    throw error;
  }
}
