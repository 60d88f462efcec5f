import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import type { Pool } from 'pg';

/** What was seen of a reader and its queue, over a time. Megabytes of 10^6 bytes. */
export interface Sizes {
  /** Of the reader, resident: the median of the samples, and the peak that the kernel knows. */
  readonly steadyMb: number;
  readonly peakMb: number;
  /** What Redis used at most. */
  readonly redisMb: number;
  /** Processes that sent WAL to it: more than one means that it was disconnected. */
  readonly walsenders: number;
}

interface Watched {
  readonly pid: number;
  readonly redisUrl: string;
  readonly source: Pool;
}

const everyMs = 250;

/** Watches from now on, until it is asked what it saw. */
export function watchSizes({ pid, redisUrl, source }: Watched): { end(): Promise<Sizes> } {
  const redis = new Redis(redisUrl);
  const resident: number[] = [];
  const senders = new Set<string>();
  let used = 0;
  let failure: Error | undefined;

  async function sample(): Promise<void> {
    resident.push(statusOf(pid, 'VmRSS'));
    used = Math.max(used, await usedBy(redis));
    const { rows } = await source.query<{ pid: string | null }>(
      `select active_pid::text as pid from pg_replication_slots where database = current_database()`,
    );
    senders.add(rows[0]?.pid ?? 'none');
  }

  const timer = setInterval(() => {
    sample().catch((error: Error) => (failure ??= error));
  }, everyMs);

  return {
    async end() {
      clearInterval(timer);
      await sample();
      redis.disconnect();
      if (failure) throw failure;
      resident.sort((one, other) => one - other);
      return {
        steadyMb: resident[resident.length >> 1]! / 1e6,
        peakMb: statusOf(pid, 'VmHWM') / 1e6,
        redisMb: used / 1e6,
        walsenders: senders.size,
      };
    },
  };
}

/** Bytes; the kernel says KiB. */
function statusOf(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const line = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line![1]) * 1024;
}

async function usedBy(redis: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))![1]);
}
