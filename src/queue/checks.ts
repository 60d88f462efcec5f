import type { QueueHome } from './home.ts';
import type { Inspection } from './inspection.ts';
import { inspectPostgres } from './postgres-checks.ts';
import { inspectRedis } from './redis-checks.ts';

/** All problems of the server that is to hold the queue: what `migrate` and a start refuse. */
export function inspectQueue(home: QueueHome, prefix: string): Promise<Inspection> {
  return 'redisUrl' in home ? inspectRedis(home.redisUrl, prefix) : inspectPostgres(home.storeUrl);
}
