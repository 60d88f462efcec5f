import { once } from 'node:events';
import { Queue, QueueKeys, RedisConnection, RedisQueueBackend, Worker } from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import type { BackendOptions, Broker, BrokerOptions, BullQueue, BullWorker } from './broker.ts';
import { answerOf } from './deadline.ts';

/** Every connection is ours, so that errors are listened to and a server that is away cannot hold up the end. */
export async function openRedisBroker(url: string, options: BrokerOptions): Promise<Broker> {
  const { prefix, role, errors } = options;
  const epochKey = `${prefix}:epoch`;

  function connect(name: string, connection: ConnectionKind): Redis {
    const client = new Redis(url, {
      ...connectionOptions,
      ...connection,
      connectionName: `emend-${role}-${name}`,
    });
    client.on('error', (error) => errors.report(error));
    return client;
  }

  const commands = connect('commands', failing);
  try {
    await answerOf(10_000, once(commands, 'ready'), 'connecting to Redis');
  } catch (error) {
    commands.disconnect();
    throw error;
  }

  return {
    kind: 'redis',
    openQueue(lane): BullQueue {
      return new Queue(lane, { connection: commands, prefix, streams: eventStream }, (name, opts) =>
        createBackend(name, prefix, opts, new RedisConnection(commands, { shared: true, blocking: false })),
      );
    },
    openWorker(lane, process, workerOptions) {
      const main = connect('worker', waiting);
      const blocking = connect('waiting', waiting);
      const worker: BullWorker = new Worker(
        lane,
        process,
        { ...workerOptions, prefix, connection: main },
        (name, opts) =>
          createBackend(name, prefix, opts, new RedisConnection(main), new RedisConnection(blocking)),
      );
      return {
        worker,
        cut() {
          end(main);
          end(blocking);
        },
      };
    },
    readEpoch: () => commands.get(epochKey),
    async claimEpoch(candidate) {
      await commands.setnx(epochKey, candidate);
      return (await commands.get(epochKey)) ?? candidate;
    },
    async readUse() {
      const info = await commands.info('memory');
      const limit = numberIn(info, 'maxmemory');
      return { bytes: numberIn(info, 'used_memory'), limit: limit > 0 ? limit : null };
    },
    abandonCommands: () => commands.disconnect(true),
    async close() {
      await commands.quit();
    },
    cut: () => end(commands),
  };
}

/**
 * `disconnect` alone ends nothing between two attempts to connect: it only stops the next one, and commands that wait for
 * a connection (and the BullMQ loops behind them) wait for ever. One more attempt lets the client notice that it is closed.
 */
function end(client: Redis): void {
  client.disconnect();
  if (client.status !== 'reconnecting') return;
  client.once('connect', () => client.disconnect());
  client.connect().catch(() => {});
}

/** 0 where a managed server does not say it. */
function numberIn(info: string, name: string): number {
  return Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
}

const connectionOptions = {
  connectTimeout: 5_000,
  keepAlive: 10_000,
  retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 6), 2_000) * (0.75 + Math.random() / 4),
  // A replica that was the primary a moment ago: only a new connection finds the new one.
  reconnectOnError: (error) => error.message.startsWith('READONLY'),
} satisfies RedisOptions;

type ConnectionKind = Pick<RedisOptions, 'enableOfflineQueue' | 'maxRetriesPerRequest'>;

/** Publishing fails while Redis is away. It must not pile up batches in memory, to be sent later. */
const failing: ConnectionKind = { enableOfflineQueue: false, maxRetriesPerRequest: 0 };

/** BullMQ demands of its workers that a command waits for the connection as long as it takes. */
const waiting: ConnectionKind = { maxRetriesPerRequest: null };

/** BullMQ writes an event for each step of a job; nothing here reads them. */
const eventStream = { events: { maxLen: 100 } };

function createBackend(
  name: string,
  prefix: string,
  options: BackendOptions,
  main: RedisConnection,
  blocking?: RedisConnection,
): RedisQueueBackend {
  const keys = new QueueKeys(prefix);
  const toKey = (type: string): string => keys.toKey(name, type);
  return new RedisQueueBackend(main, name, keys.getKeys(name), toKey, options, blocking);
}
