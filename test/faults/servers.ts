import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { startPostgres } from '../../src/dev/postgres.ts';
import type { LocalPostgres } from '../../src/dev/postgres.ts';
import { startRedis } from '../../src/dev/redis.ts';

/** A server that is killed and started again under one address. What is asked of it happens one after the other. */
interface Killable {
  /** kill -9; it is away for so long. */
  kill(downMs: number): Promise<void>;
}

export interface PostgresServer extends Killable {
  url(database?: string): string;
  /** An end that cuts all connections, orderly or without a checkpoint, and a start. */
  restart(how?: 'fast' | 'immediate'): Promise<void>;
}

export interface RedisServer extends Omit<Killable, 'kill'> {
  readonly url: string;
  kill(downMs: number, options: { keepsData: boolean }): Promise<void>;
  flushAll(): Promise<void>;
}

export interface Servers {
  readonly source: PostgresServer;
  readonly store: PostgresServer;
  readonly redis: RedisServer;
  stop(): Promise<void>;
}

/** A source, a store and a Redis, each a process of its own, for many programs. */
export async function startServers(): Promise<Servers> {
  // named as the run's own folder, so that the next run removes what a killed one leaves
  const dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-`));
  const ends: (() => Promise<void>)[] = [];
  const [source, store, redis] = await Promise.all([
    startPostgresServer(join(dir, 'source'), ends),
    startPostgresServer(join(dir, 'store'), ends),
    startRedisServer(join(dir, 'redis'), ends),
  ]);
  return {
    source,
    store,
    redis,
    async stop() {
      await Promise.all(ends.map((end) => end()));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function startPostgresServer(dataDir: string, ends: (() => Promise<void>)[]): Promise<PostgresServer> {
  const start = (port?: number): Promise<LocalPostgres> => {
    const binDir = process.env['EMEND_TEST_PG_BIN'];
    return startPostgres({
      dataDir,
      persistent: true,
      fast: true,
      // a reader that stands still is cut off
      flags: { shared_buffers: '64MB', wal_sender_timeout: '2s' },
      ...(port === undefined ? {} : { port }),
      ...(binDir === undefined || binDir === '' ? {} : { binDir }),
    });
  };
  let server = await start();
  const { port, url } = server;
  const inTurn = turns();
  ends.push(() => inTurn(() => server.stop()));
  return {
    url,
    kill: (downMs) =>
      inTurn(async () => {
        await server.kill();
        await sleep(downMs);
        server = await start(port);
      }),
    restart: (how = 'fast') =>
      inTurn(async () => {
        if (how === 'immediate') process.kill(server.pid, 'SIGQUIT');
        await server.stop();
        server = await start(port);
      }),
  };
}

async function startRedisServer(dir: string, ends: (() => Promise<void>)[]): Promise<RedisServer> {
  let server = await startRedis({ dir, appendonly: true });
  const { url, port } = server;
  const inTurn = turns();
  ends.push(() => inTurn(() => server.stop()));
  return {
    url,
    kill: (downMs, { keepsData }) =>
      inTurn(async () => {
        await server.kill();
        await sleep(downMs);
        if (!keepsData) rmSync(dir, { recursive: true });
        server = await startRedis({ dir, port, appendonly: true });
      }),
    flushAll: () =>
      inTurn(async () => {
        const client = new Redis(url);
        await client.flushall().finally(() => client.disconnect());
      }),
  };
}

/** Runs what it is given one after the other. */
function turns(): (body: () => Promise<void>) => Promise<void> {
  let last = Promise.resolve();
  return (body) => {
    const mine = last.then(body);
    last = mine.catch(() => undefined);
    return mine;
  };
}
