import {
  PostgresConnection,
  PostgresQueueBackend,
  Queue,
  Worker,
  type PostgresConnectionOptions,
} from 'bullmq';
import pg from 'pg';
import { lanes } from './broker.ts';
import type { BackendOptions, Broker, BrokerOptions, BullQueue, BullWorker } from './broker.ts';
import { prepareSchema, schema } from './postgres-schema.ts';

/** BullMQ's own PostgreSQL backend, in a schema of the store database. */
export async function openPostgresBroker(url: string, options: BrokerOptions): Promise<Broker> {
  const { prefix, role, errors } = options;
  const pool = createPool(url, role);
  pool.on('error', (error) => errors.report(error));
  // There is no prefix in a database: the lane's name carries it.
  const nameOf = (lane: string): string => `${prefix}-${lane}`.replaceAll(':', '-');
  try {
    await prepareSchema(pool, lanes.map(nameOf));
  } catch (error) {
    await pool.end();
    throw error;
  }

  function createBackend(name: string, backendOptions: BackendOptions): PostgresQueueBackend {
    const connection = pool as PostgresConnectionOptions;
    return new PostgresQueueBackend(new SchemaConnection(connection), name, {
      ...backendOptions,
      connection,
    });
  }

  return {
    kind: 'postgres',
    openQueue: (lane): BullQueue => new Queue(nameOf(lane), { connection: pool }, createBackend),
    openWorker(lane, process, workerOptions) {
      const name = nameOf(lane);
      const worker: BullWorker = new Worker(
        name,
        process,
        { ...workerOptions, connection: pool },
        createBackend,
      );
      return { worker, cut: () => void worker.disconnect().catch((error: unknown) => errors.report(error)) };
    },
    readEpoch: () => selectEpoch(pool, prefix),
    async claimEpoch(candidate) {
      await insertEpoch(pool, prefix, candidate);
      return (await selectEpoch(pool, prefix)) ?? candidate;
    },
    readUse: async () => ({ bytes: await sumOfJobs(pool, nameOf('')), limit: null }),
    abandonCommands: () => {},
    close: () => pool.end(),
    cut: () => void pool.end().catch(() => {}),
  };
}

/** A connection that is built from a pool takes BullMQ's default schema. */
class SchemaConnection extends PostgresConnection {
  override readonly schema = schema;
}

/** Not the pool of `db/`: BullMQ needs parsed values and its own search_path. */
function createPool(url: string, role: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: `emend ${role} queue`,
    max: 8,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: 10_000,
    onConnect: async (client: pg.ClientBase) => {
      await client.query(`select set_config('search_path', $1, false)`, [schema]);
    },
  });
  pool.on('connect', (client) => client.on('error', () => {}));
  // One listener for each worker that was ever opened on it.
  pool.setMaxListeners(0);
  return pool;
}

async function selectEpoch(pool: pg.Pool, prefix: string): Promise<string | null> {
  const { rows } = await pool.query<{ epoch: string }>(`select epoch from emend_epoch where prefix = $1`, [
    prefix,
  ]);
  return rows[0]?.epoch ?? null;
}

async function insertEpoch(pool: pg.Pool, prefix: string, epoch: string): Promise<void> {
  await pool.query(
    `insert into emend_epoch (prefix, epoch) values ($1, $2) on conflict (prefix) do nothing`,
    [prefix, epoch],
  );
}

/** As they are stored, compressed; the values themselves are not read for it. */
async function sumOfJobs(pool: pg.Pool, names: string): Promise<number> {
  const { rows } = await pool.query<{ bytes: string }>(
    `select coalesce(sum(pg_column_size(data)), 0)::text as bytes from job where starts_with(queue, $1)`,
    [names],
  );
  return Number(rows[0]!.bytes);
}
