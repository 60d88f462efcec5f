import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { Supervised } from '../faults/processes.ts';
import type { Point, Series } from './flat.ts';

interface Watched {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly redisUrl: string;
  /** Those that are let live, by what they are called in the report. */
  readonly watched: Readonly<Record<string, Supervised>>;
  /** Where processes write what their heap holds, each under its number. */
  readonly heapDir: string;
  readonly signal: AbortSignal;
}

const everyMs = 1_000;
const mb = 1e6;

/** What a figure may rise, as a share or an amount: what the noise of a short run on a busy machine is, and a leak of hours is not. */
const bounds: Record<string, Pick<Series, 'unit' | 'share' | 'amount'>> = {
  'heap of': { unit: 'MB', share: 0.2, amount: 20 },
  'resident memory of': { unit: 'MB', share: 0.15, amount: 40 },
  'connections to': { unit: '', share: 0.1, amount: 3 },
  'memory of Redis': { unit: 'MB', share: 0.2, amount: 2 },
  'connections of Redis': { unit: '', share: 0.1, amount: 3 },
  'WAL kept': { unit: 'MB', share: 0.2, amount: 20 },
  'jobs on the queue': { unit: '', share: 0.2, amount: 50 },
  'ledger a correction': { unit: 'bytes', share: 0.1, amount: 10 },
  'set aside': { unit: 'rows', share: 0, amount: 0 },
  'targets': { unit: 'MB', share: 0.2, amount: 5 },
  'temporary files': { unit: 'MB/s', share: 0.2, amount: 1 },
  'rows of the log not merged': { unit: 'rows', share: 0.2, amount: 500 },
}; // prettier-ignore

export interface Samples {
  /** Of what was seen from `fromMs` after the start. */
  series(fromMs: number): Series[];
}

/** Looks once a second, until the signal; a server that is away just now is looked at again. */
export function startSamples(of: Watched): Samples & { readonly ended: Promise<void> } {
  const points = new Map<string, Point[]>();
  const startedAt = performance.now();
  const temp = createRate();

  async function look(): Promise<void> {
    const atMs = performance.now() - startedAt;
    const note = (name: string, value: number | undefined): void => {
      if (value === undefined || Number.isNaN(value)) return;
      points.set(name, [...(points.get(name) ?? []), { atMs, value }]);
    };
    for (const [name, { pid }] of Object.entries(of.watched)) {
      note(`heap of ${name}`, pid === undefined ? undefined : heapMb(of.heapDir, pid));
      note(`resident memory of ${name}`, pid === undefined ? undefined : residentMb(pid));
    }
    const [source, store, redis] = await Promise.all([
      read(of.sourceUrl, ofSource),
      read(of.storeUrl, ofStore),
      readRedis(of.redisUrl),
    ]);
    note('connections to the source', source?.['connections']);
    note('WAL kept for the slot', source?.['kept']);
    note('connections to the store', store?.['connections']);
    if (store) {
      note('ledger a correction', store['ledger']! / Math.max(store['merged']!, 1));
      note('set aside', store['set_aside']);
      note('targets', store['targets']);
      note('temporary files of the store', temp(atMs, store['temp']!));
      if (source) note('rows of the log not merged', Math.max(source['rows']! - store['merged']!, 0));
    }
    note('memory of Redis', redis?.usedMb);
    note('connections of Redis', redis?.clients);
    note('jobs on the queue', redis?.jobs);
  }

  const ended = (async () => {
    while (!of.signal.aborted) {
      await look();
      await sleep(everyMs, undefined, { signal: of.signal }).catch(() => undefined);
    }
  })();

  return {
    ended,
    series: (fromMs) =>
      [...points].map(([name, all]) => ({
        name,
        ...Object.entries(bounds).find(([prefix]) => name.startsWith(prefix))![1],
        points: judged(
          name,
          all.filter(({ atMs }) => atMs >= fromMs),
        ),
      })),
  };
}

const pointsOfLeast = 8;

function judged(name: string, points: Point[]): Point[] {
  return name.startsWith('heap of') ? leastOf(points) : points;
}

/** What is left after a collection of garbage: of some seconds each, the least. */
function leastOf(points: readonly Point[]): Point[] {
  return Array.from({ length: Math.floor(points.length / pointsOfLeast) }, (_, place) =>
    points
      .slice(place * pointsOfLeast, (place + 1) * pointsOfLeast)
      .reduce((least, point) => (point.value < least.value ? point : least)),
  );
}

const ofSource = `
  select (select count(*) from pg_stat_activity where datname = current_database() and application_name ^@ 'emend') as connections,
         (select coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0) / ${mb} from pg_replication_slots) as kept,
         (select last_value from corrections._id) as rows`;

const ofStore = `
  select (select count(*) from pg_stat_activity where datname = current_database() and application_name ^@ 'emend') as connections,
         (select sum(pg_total_relation_size(c.oid)) from pg_class c
          where c.relnamespace = 'emend'::regnamespace and c.relkind = 'r' and c.relname ^@ 'ledger') as ledger,
         (select coalesce(sum(rows), 0) from emend.merge) as merged,
         (select count(*) from emend.dead_letter) as set_aside,
         (pg_total_relation_size('public.f') + pg_total_relation_size('public.o') + pg_total_relation_size('public.u')) / ${mb} as targets,
         (select temp_bytes / ${mb} from pg_stat_database where datname = current_database()) as temp`;

async function read(url: string, sql: string): Promise<Record<string, number> | undefined> {
  const client = new pg.Client({ connectionString: url, application_name: 'soak' });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<Record<string, string>>(sql);
    return Object.fromEntries(Object.entries(rows[0]!).map(([name, value]) => [name, Number(value)]));
  } catch {
    return undefined;
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function readRedis(
  url: string,
): Promise<{ usedMb: number; clients: number; jobs: number } | undefined> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const info = await client.info();
    const numberOf = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1]);
    const keys = Number(/^db0:keys=(\d+)/m.exec(info)?.[1] ?? 0);
    return {
      usedMb: numberOf('used_memory') / mb,
      // one is ours
      clients: numberOf('connected_clients') - 1,
      jobs: keys,
    };
  } catch {
    return undefined;
  } finally {
    client.disconnect();
  }
}

function residentMb(pid: number): number | undefined {
  try {
    const kb = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kb === undefined ? undefined : (Number(kb) * 1024) / mb;
  } catch {
    return undefined; // it has just ended
  }
}

function heapMb(dir: string, pid: number): number | undefined {
  try {
    return Number(readFileSync(join(dir, String(pid)), 'utf8')) / mb;
  } catch {
    return undefined; // it has just begun
  }
}

/** Of a counter, how much it rises a second. */
function createRate(): (atMs: number, value: number) => number | undefined {
  let last: Point | undefined;
  return (atMs, value) => {
    const before = last;
    last = { atMs, value };
    return before && value >= before.value
      ? ((value - before.value) / (atMs - before.atMs)) * 1_000
      : undefined;
  };
}
