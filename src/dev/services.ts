import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { startPostgres, type LocalPostgres } from './postgres.ts';
import { findRedisServer, startRedis, type LocalRedis } from './redis.ts';

/**
 * Everything that emend needs to run on one machine: what the environment names (`SOURCE_URL`, `STORE_URL`, `REDIS_URL`)
 * is used as it is; the rest is started here and stopped by `stop`.
 */
export interface ServicesOptions {
  /** Holds the servers' folders. */
  readonly dir: string;
  /** 'if-present': without a redis-server on PATH the queue is BullMQ's PostgreSQL backend. */
  readonly redis: 'required' | 'if-present' | 'none';
  /** Keep the data for the next time; default: the servers' folders are removed at the end (a `redis` that was there stays). */
  readonly persistent?: boolean;
  readonly fast?: boolean;
}

export interface Services {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly redisUrl: string | undefined;
  /** What a person should know about the choices made, one sentence each. */
  readonly notes: readonly string[];
  readonly postgres: LocalPostgres | undefined;
  readonly redis: LocalRedis | undefined;
  readonly stop: () => Promise<void>;
}

export async function startServices(options: ServicesOptions): Promise<Services> {
  const dir = resolve(options.dir);
  const given = {
    source: fromEnvironment('SOURCE_URL'),
    store: fromEnvironment('STORE_URL'),
    redis: fromEnvironment('REDIS_URL'),
  };
  const notes: string[] = [];
  mkdirSync(dir, { recursive: true });

  let postgres: LocalPostgres | undefined;
  let redis: LocalRedis | undefined;
  try {
    if (given.source === undefined || given.store === undefined) {
      postgres = await startPostgres({
        dataDir: join(dir, 'postgres'),
        persistent: options.persistent === true,
        fast: options.fast === true,
      });
      if (given.source === undefined) await postgres.createDatabase('source');
      if (given.store === undefined) await postgres.createDatabase('store');
    }
    if (given.redis === undefined && options.redis !== 'none') {
      if (options.redis === 'required' || findRedisServer() !== undefined) {
        const folder = join(dir, 'redis');
        redis = await startRedis({
          dir: folder,
          appendonly: options.persistent === true,
          temporary: options.persistent !== true && !existsSync(folder),
        });
      } else {
        notes.push(
          'No redis-server or valkey-server is on PATH, so the queue is BullMQ’s PostgreSQL backend in the store database.',
        );
      }
    }
  } catch (error) {
    await postgres?.stop();
    throw error;
  }

  return {
    sourceUrl: given.source ?? postgresUrl(postgres, 'source'),
    storeUrl: given.store ?? postgresUrl(postgres, 'store'),
    redisUrl: options.redis === 'none' ? undefined : (given.redis ?? redis?.url),
    notes,
    postgres,
    redis,
    stop: async () => {
      await Promise.all([postgres?.stop(), redis?.stop()]);
    },
  };
}

function fromEnvironment(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}

function postgresUrl(postgres: LocalPostgres | undefined, database: string): string {
  if (postgres === undefined) throw new Error('no PostgreSQL was started');
  return postgres.url(database);
}
