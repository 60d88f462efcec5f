import type { Problem } from '../errors.ts';
import type { QueueHome } from './home.ts';
import type { Inspection } from './inspection.ts';
import { inspectPostgres } from './postgres-checks.ts';
import { inspectRedis } from './redis-checks.ts';

export function inspectQueue(home: QueueHome, prefix: string): Promise<Inspection> {
  return 'redisUrl' in home ? inspectRedis(home.redisUrl, prefix) : inspectPostgres(home.storeUrl);
}

/** All problems of the server that is to hold the queue: what `doctor` shows and a start refuses. */
export async function checkQueue(home: QueueHome, prefix: string): Promise<readonly Problem[]> {
  return (await inspectQueue(home, prefix)).problems;
}
