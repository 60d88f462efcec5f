import { join } from 'node:path';
import { realpathSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { EmendError } from '../errors.ts';
import { freePort } from './free-port.ts';
import { prepareCluster } from './postgres-cluster.ts';
import { postgresBinaries } from './postgres-binaries.ts';
import { asUser } from './os-user.ts';
import { supervise, type Supervised } from './supervise.ts';

/**
 * A real PostgreSQL server for a laptop, a demo or a test: on 127.0.0.1 only, with a random password, in a folder of its own.
 *
 * Promise: what answers at `url` is the server of this folder, and it is gone soon after this process is, whatever ended it.
 */
export interface PostgresOptions {
  /** Absent, empty, or made by an earlier call; anything else is refused. */
  readonly dataDir: string;
  /** Left out: any free port. */
  readonly port?: number;
  /** More server settings, such as `{ wal_level: 'replica' }`. */
  readonly flags?: Readonly<Record<string, string>>;
  /** Keep the folder after `stop` (and use what is in it at the start). Default: a temporary folder, removed at the end. */
  readonly persistent?: boolean;
  /** For tests: survives a crash of the server, not one of the machine. */
  readonly fast?: boolean;
  /** Folder of another installed PostgreSQL's `initdb` and `postgres`, such as `/usr/lib/postgresql/15/bin`. */
  readonly binDir?: string;
}

export interface LocalPostgres {
  readonly port: number;
  readonly pid: number;
  readonly dataDir: string;
  readonly url: (database?: string) => string;
  /** Creates the database unless it is there. */
  readonly createDatabase: (name: string) => Promise<void>;
  readonly running: () => boolean;
  readonly stop: () => Promise<void>;
  /** kill -9 of the postmaster; start again with the same folder (`persistent`) and port. */
  readonly kill: () => Promise<void>;
}

const startTimeoutMs = 60_000;

export async function startPostgres(options: PostgresOptions): Promise<LocalPostgres> {
  const binaries = postgresBinaries(options.binDir);
  const cluster = await prepareCluster({
    dataDir: options.dataDir,
    initdb: binaries.initdb,
    keepContents: options.persistent === true,
  });
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await freePort());
    const settings = Object.entries({ ...serverSettings(port, options.fast === true), ...options.flags });
    const server = await supervise({
      command: asUser(
        cluster.user,
        [
          binaries.postgres,
          '-D',
          cluster.dataDir,
          ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
        ],
        [binaries.postgres, cluster.dataDir],
      ),
      stopSignal: 'INT',
      cwd: '/',
      logFile: join(cluster.dataDir, 'server.log'),
      env: { ...process.env, LC_MESSAGES: 'C' },
      ...(options.persistent === true ? {} : { removeAfterwards: cluster.dataDir }),
    });
    const url = (database = 'postgres'): string =>
      `postgres://postgres:${cluster.password}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
    const complaint = await waitUntilOurs(server, url(), cluster.dataDir);
    if (complaint === undefined) {
      return {
        port,
        pid: server.pid,
        dataDir: cluster.dataDir,
        url,
        createDatabase: (name) => createDatabase(url(), name),
        running: server.running,
        stop: server.stop,
        kill: server.kill,
      };
    }
    // Somebody was faster with the port, or backends of a killed server are still on their way out.
    const passing = /Address already in use|pre-existing shared memory block/.test(complaint);
    if (!passing || attempt === 5) {
      throw new EmendError(
        'server_unsuitable',
        `PostgreSQL did not start in ${cluster.dataDir}:\n${complaint}`,
        {
          remedy:
            'Put right what its last lines say, or set SOURCE_URL and STORE_URL to a server that runs already.',
        },
      );
    }
    await sleep(200 * attempt);
    if (options.persistent !== true) return startPostgres(options); // the folder went with the failed server
  }
}

function serverSettings(port: number, fast: boolean): Record<string, string> {
  return {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '', // TCP with a password is the only way in
    cluster_name: 'emend-dev',
    wal_level: 'logical',
    shared_buffers: '256MB',
    max_connections: '200',
    max_locks_per_transaction: '80', // batches of 1,000 keys are merged side by side (`emend.lock_keys`)
    // Every test database may have a slot of its own.
    max_wal_senders: '60',
    max_replication_slots: '200',
    max_prepared_transactions: '10', // a prepared transaction holds back the xid horizon, which tests provoke
    timezone: 'UTC',
    log_timezone: 'UTC',
    logging_collector: 'off',
    ...(fast ? { fsync: 'off', full_page_writes: 'off' } : {}),
  };
}

/** Nothing when our own server answers; else the last lines of the one that gave up. */
async function waitUntilOurs(server: Supervised, url: string, dataDir: string): Promise<string | undefined> {
  const deadline = performance.now() + startTimeoutMs;
  let last: unknown;
  while (server.running() && performance.now() < deadline) {
    try {
      const [row] = await query<{ data_directory: string }>(url, 'show data_directory');
      if (row?.data_directory === realpathSync(dataDir)) return undefined;
    } catch (error) {
      last = error; // not listening yet, still recovering, or a stranger on our port: our own will then end by itself
    }
    await sleep(25);
  }
  if (!server.running()) return server.lastLines();
  const lines = server.lastLines();
  await server.stop();
  return `${lines}\nno answer within ${startTimeoutMs / 1000} s: ${String(last)}`;
}

async function createDatabase(url: string, name: string): Promise<void> {
  const existing = await query(url, 'select from pg_database where datname = $1', [name]);
  if (existing.length === 0) await query(url, `create database ${pg.escapeIdentifier(name)}`);
}

async function query<Row extends pg.QueryResultRow>(
  url: string,
  sql: string,
  values: string[] = [],
): Promise<Row[]> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'emend dev',
    connectionTimeoutMillis: 5_000,
  });
  client.on('error', () => undefined); // the query itself reports it
  try {
    await client.connect();
    return (await client.query<Row>(sql, values)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}
