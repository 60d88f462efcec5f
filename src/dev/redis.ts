import { accessSync, constants, mkdirSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { EmendError } from '../errors.ts';
import { freePort } from './free-port.ts';
import { supervise, type Supervised } from './supervise.ts';

/** A real Redis (or Valkey) on 127.0.0.1 in a folder of its own; gone soon after this process is, whatever ended it. */
export interface RedisOptions {
  /** Where its append-only file and its log go. */
  readonly dir: string;
  /** Remove the folder at the end. Default: it stays, so that a killed server can start again in it. */
  readonly temporary?: boolean;
  /** Left out: any free port. */
  readonly port?: number;
  readonly maxmemoryMb?: number;
  /** BullMQ needs `noeviction`, the default; another one is for testing that it is refused. */
  readonly policy?: string;
  readonly appendonly?: boolean;
}

export interface LocalRedis {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly running: () => boolean;
  readonly stop: () => Promise<void>;
  /** kill -9, as a crash would be. */
  readonly kill: () => Promise<void>;
}

const startTimeoutMs = 20_000;

/** Path of `redis-server` or `valkey-server`, if one of them is on PATH. */
export function findRedisServer(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return ['redis-server', 'valkey-server']
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return statSync(file).isFile();
      } catch {
        return false;
      }
    });
}

export async function startRedis(options: RedisOptions): Promise<LocalRedis> {
  const binary = findRedisServer();
  if (binary === undefined) {
    throw new EmendError('dependency_missing', 'neither redis-server nor valkey-server is on PATH', {
      remedy:
        'Install Redis (apt-get install redis-server, brew install redis), or set REDIS_URL to one that runs already.',
    });
  }
  for (let attempt = 1; ; attempt += 1) {
    // a temporary folder goes with a server that did not start
    mkdirSync(options.dir, { recursive: true });
    const port = options.port ?? (await freePort());
    const server = await supervise({
      command: [
        binary,
        ...Object.entries(settings(options, port)).flatMap(([name, value]) => [`--${name}`, value]),
      ],
      stopSignal: 'TERM',
      cwd: options.dir,
      logFile: join(options.dir, 'redis.log'),
      ...(options.temporary === true ? { removeAfterwards: options.dir } : {}),
    });
    const url = `redis://127.0.0.1:${port}`;
    const complaint = await waitUntilOurs(server, url);
    if (complaint === undefined) {
      return { url, port, pid: server.pid, running: server.running, stop: server.stop, kill: server.kill };
    }
    if (options.port !== undefined || !/in use/.test(complaint) || attempt === 5) {
      throw new EmendError('queue_unsuitable', `${binary} did not start in ${options.dir}:\n${complaint}`, {
        remedy: 'Put right what its last lines say, or set REDIS_URL to a Redis that runs already.',
      });
    }
  }
}

function settings(options: RedisOptions, port: number): Record<string, string> {
  return {
    port: String(port),
    bind: '127.0.0.1',
    daemonize: 'no',
    dir: options.dir,
    save: '', // snapshots would write a file nobody reads
    appendonly: options.appendonly === true ? 'yes' : 'no',
    'maxmemory-policy': options.policy ?? 'noeviction',
    maxmemory: `${options.maxmemoryMb ?? 0}mb`,
  };
}

/** Nothing once the server we started, and no other, answers and has loaded its data; else its last lines. */
async function waitUntilOurs(server: Supervised, url: string): Promise<string | undefined> {
  const deadline = performance.now() + startTimeoutMs;
  while (server.running() && performance.now() < deadline) {
    const info = await askInfo(url);
    if (info.includes(`process_id:${server.pid}\r`) && info.includes('loading:0\r')) return undefined;
    await sleep(20);
  }
  if (server.running()) await server.stop();
  return server.lastLines();
}

async function askInfo(url: string): Promise<string> {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    enableReadyCheck: false,
    disconnectTimeout: 100,
  });
  client.on('error', () => undefined); // not listening yet
  try {
    await client.connect();
    return await client.info();
  } catch {
    return '';
  } finally {
    client.disconnect();
  }
}
