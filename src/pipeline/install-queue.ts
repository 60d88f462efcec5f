import type { ResolvedConfig } from '../config/resolved-config.ts';
import { createLogger } from '../observe/logger.ts';
import type { QueueHome } from '../queue/home.ts';
import { openQueue } from '../queue/queue.ts';
import type { Queue } from '../queue/queue.ts';

/** Redis where it is configured, else the store. */
export function queueHome({ queue, store }: ResolvedConfig): QueueHome {
  return queue.redis === null ? { storeUrl: store.url } : { redisUrl: queue.redis };
}

/** The braces keep all keys of an install in one slot of a Redis Cluster. */
export function queuePrefix({ queue }: ResolvedConfig, install: string): string {
  return queue.prefix ?? `{emend-${install}}`;
}

/** Lends the queue to a command that only looks at it. */
export async function withQueue<T>(
  config: ResolvedConfig,
  install: string,
  body: (queue: Queue) => Promise<T>,
): Promise<T> {
  const log = createLogger({ level: 'silent' });
  const queue = await openQueue(queueHome(config), {
    prefix: queuePrefix(config, install),
    role: 'command',
    log,
  });
  try {
    return await body(queue);
  } finally {
    await queue.close({ deadlineMs: 1_000 });
  }
}
