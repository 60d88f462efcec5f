import pg from 'pg';
import { pinSession } from './session.ts';

export interface PoolOptions {
  readonly url: string;
  /** Shown in `pg_stat_activity`: `emend worker`, `emend reader`. */
  readonly applicationName: string;
  readonly max?: number;
  /** Server-side limit of one statement, ms. It must stay below the queue's job lock, or two workers do one job. */
  readonly statementTimeoutMs?: number;
  /** Queries are sent before those ahead of them are answered (`inOneTrip`); a client takes no COPY and no cursor then. */
  readonly pipeline?: boolean;
  /** Further settings of each session, such as the planner's. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** All values come back as the server's text: no Date, no double, no parsed JSON (law 9). */
export const rawTypes: pg.CustomTypesConfig = { getTypeParser: () => (value: unknown) => value };

/**
 * Of a machine that vanished the server hears nothing: without these, its sessions keep their locks, of keys, of the sweep, of the
 * clock, for the two hours that Linux waits by default. Seconds; not taken by a server that is reached through a file.
 */
const lifeSigns = {
  tcp_keepalives_idle: '30',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
};

/**
 * A pool whose sessions are pinned (`session.ts`) and whose values are raw text.
 *
 * The listener on each client is not decoration: pg takes its own off while a client is checked out, and a backend
 * that dies between two queries would then end the process (brianc/node-postgres#2439).
 */
export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.max ?? 4,
    types: rawTypes,
    keepAlive: true,
    pipeline: options.pipeline === true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: 10_000,
    ...(options.statementTimeoutMs === undefined ? {} : { statement_timeout: options.statementTimeoutMs }),
    onConnect: async (client: pg.ClientBase) => {
      await pinSession(client, { ...lifeSigns, ...options.settings });
    },
  });
  pool.on('error', ignore);
  pool.on('connect', (client) => client.on('error', ignore));
  return pool;
}

/** The query that was running, or the next one, reports the loss; the event itself says nothing more. */
function ignore(): void {}
