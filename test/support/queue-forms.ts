import { Redis } from 'ioredis';
import type { Install } from './install.ts';

/** How the batches that wait on the live lane are written: with their rows, or by reference. */
export interface Forms {
  readonly byValue: number;
  readonly byReference: number;
}

/** Of a Redis or a store that no other install uses. */
export function readForms({ config, store }: Pick<Install, 'config' | 'store'>): Promise<Forms> {
  return config.queue.redis === null ? inStore(store) : inRedis(config.queue.redis);
}

async function inStore(store: Install['store']): Promise<Forms> {
  const { rows } = await store.query<{ by_value: string; by_reference: string }>(
    `select count(*) filter (where data ? 'parts')::text as by_value,
            count(*) filter (where data ? 'refs')::text as by_reference
     from emend_queue.job where queue like '%-live'`,
  );
  return { byValue: Number(rows[0]!.by_value), byReference: Number(rows[0]!.by_reference) };
}

async function inRedis(url: string): Promise<Forms> {
  const client = new Redis(url, { maxRetriesPerRequest: 1 });
  client.on('error', () => undefined); // it is away: the command says so
  try {
    const jobs = await client.keys('*:live:b-*');
    const data = await Promise.all(jobs.map((job) => client.hget(job, 'data')));
    return {
      byValue: data.filter((text) => text?.includes('"parts":')).length,
      byReference: data.filter((text) => text?.includes('"refs":')).length,
    };
  } finally {
    client.disconnect();
  }
}
