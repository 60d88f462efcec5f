import type { Socket } from 'node:net';
import pg from 'pg';
import { literal } from '../db/identifier.ts';
import { rawTypes } from '../db/pool.ts';
import { pinnedSettings } from '../db/session.ts';

/** A client in replication mode: plain SQL without parameters, and replication commands. */
export type Walsender = pg.Client & { readonly connection: CopyConnection };

/** The part of pg's connection that carries a copy-both stream; pg itself has no name for such a stream. */
interface CopyConnection {
  readonly stream: Socket;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  on(event: 'copyData', listener: (message: { readonly chunk: Buffer }) => void): void;
  on(
    event: 'notice',
    listener: (notice: { readonly severity?: string; readonly message?: string }) => void,
  ): void;
  once(event: 'replicationStart', listener: () => void): void;
}

/** Not connected yet, so that whoever stops in the middle of connecting has something to destroy. */
export function createWalsender(url: string): Walsender {
  const config: pg.ClientConfig & { replication: 'database' } = {
    connectionString: url,
    replication: 'database',
    application_name: 'emend reader',
    types: rawTypes,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: 10_000,
  };
  const client = new pg.Client(config) as Walsender;
  client.on('error', () => undefined); // the command that runs reports it
  return client;
}

export async function connectWalsender(client: Walsender): Promise<void> {
  await client.connect();
  await pinWalsender(client);
}

/**
 * The output functions run in this session, so its settings decide how values look (law 9). Warnings have to come
 * through, because PostgreSQL 18 only warns when the publication is gone.
 */
async function pinWalsender(client: Walsender): Promise<void> {
  const settings = { ...pinnedSettings, client_min_messages: 'warning', statement_timeout: '0' };
  const calls = Object.entries(settings).map(
    ([name, value]) => `set_config(${literal(name)}, ${literal(value)}, false)`,
  );
  await client.query(`select ${calls.join(', ')}`);
}

/** 0: the server never gives up on a silent reader. */
export async function senderTimeoutMs(client: Walsender): Promise<number> {
  const { rows } = await client.query<{ setting: string }>(
    `select setting from pg_settings where name = 'wal_sender_timeout'`,
  );
  return Number(rows[0]?.setting ?? 0);
}

const farewellMs = 1_000;

/** In any state of the connection; a server that does not answer is left alone. */
export async function closeWalsender(client: Walsender): Promise<void> {
  const { stream } = client.connection;
  const deadline = setTimeout(() => stream.destroy(), farewellMs);
  await client.end().catch(() => undefined);
  clearTimeout(deadline);
  stream.destroy();
}
