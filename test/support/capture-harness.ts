import { createHash } from 'node:crypto';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import type { Batch } from '../../src/change/batch.ts';
import type { Log } from '../../src/change/ports.ts';
import { createCapture, type Capture, type CaptureOptions } from '../../src/capture/capture.ts';
import { planPublication } from '../../src/capture/publication.ts';
import { eventually } from './eventually.ts';

/** A source with one value log, `corrections.prices`, and its publication; no slot yet. */
export interface Source {
  readonly url: string;
  readonly db: pg.Client;
  readonly slot: string;
  readonly publication: string;
  /** Inserts rows in one transaction and returns their ids. */
  readonly insert: (rows?: number, reason?: string) => Promise<string[]>;
  readonly slotRow: () => Promise<{ confirmed: string; pid: number | null }>;
  readonly connect: () => Promise<pg.Client>;
}

export interface Reader {
  readonly capture: Capture;
  readonly running: Promise<void>;
  /** Accepted batches, in order. */
  readonly batches: Batch[];
  /** Ids of the rows in them. */
  readonly ids: () => string[];
  readonly warnings: string[];
}

export interface ReaderOptions extends Partial<Omit<CaptureOptions, 'publish'>> {
  /** Called before a batch is accepted; what it throws refuses the call. */
  readonly beforeAccept?: (batches: readonly Batch[]) => Promise<void> | void;
}

export async function createSource(url: string): Promise<Source> {
  const name = `emend_${createHash('md5').update(url).digest('hex').slice(0, 12)}`;
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    return client;
  };
  const db = await connect();
  await db.query(logTable);
  for (const { sql } of await planPublication(db, { publication: name, targets: ['prices'] }))
    await db.query(sql);
  onTestFinished(() => db.end());
  return {
    url,
    db,
    slot: name,
    publication: name,
    connect,
    async insert(rows = 1, reason = 'test') {
      const inserted = await db.query<{ _id: string }>(
        `insert into corrections.prices (product_id, price, valid_from, valid_to, _reason)
         select 'A' || n, n, '2026-01-01', '2026-02-01', $2
         from generate_series(1, $1) as n
         returning _id::text`,
        [rows, reason],
      );
      return inserted.rows.map((row) => row._id);
    },
    async slotRow() {
      const { rows } = await db.query<{ confirmed: string; pid: number | null }>(
        `select confirmed_flush_lsn::text as confirmed, active_pid as pid from pg_replication_slots where slot_name = $1`,
        [name],
      );
      if (!rows[0]) throw new Error('there is no slot');
      return rows[0];
    },
  };
}

const logTable = `
  create schema corrections;
  create sequence corrections._id_seq cache 1;
  create table corrections.prices (
    _id bigint not null default nextval('corrections._id_seq'),
    _op text not null default 'upsert',
    _backfill text,
    _reason text,
    _actor text not null default current_user,
    _recorded_at timestamptz not null default clock_timestamp(),
    _xid xid8 not null default pg_current_xact_id(),
    _nonce bigint not null default (random() * 1e15)::bigint,
    product_id text not null,
    price numeric,
    valid_from timestamptz not null,
    valid_to timestamptz not null
  )`;

/** Starts a reader whose queue is an array; it is stopped at the end of the test. */
export function startReader(source: Source, options: ReaderOptions = {}): Reader {
  const { beforeAccept, ...given } = options;
  const batches: Batch[] = [];
  const warnings: string[] = [];
  const log: Log = {
    debug: () => undefined,
    info: () => undefined,
    warn: (_, message) => warnings.push(message),
    error: (_, message) => warnings.push(message),
  };
  const capture = createCapture({
    url: source.url,
    slot: source.slot,
    publication: source.publication,
    targets: ['prices'],
    atomicRows: 1_000,
    atomicBytes: 1_048_576,
    lingerMs: 5,
    durable: async () => true,
    log,
    ...given,
    publish: async (offered) => {
      await beforeAccept?.(offered);
      batches.push(...offered);
    },
  });
  const running = capture.run();
  running.catch(() => undefined);
  onTestFinished(() => capture.stop());
  return { capture, running, batches, warnings, ids: () => batches.flatMap(idsOf) };
}

export function idsOf(batch: Batch): string[] {
  return columnOf(batch, '_id') as string[];
}

export function columnOf(batch: Batch, name: string): (string | null)[] {
  return batch.parts.flatMap((part) => part.values[part.columns.indexOf(name)] ?? []);
}

export async function streaming(reader: Reader): Promise<void> {
  await eventually(() => {
    const { state, lastError } = reader.capture.status();
    if (state !== 'streaming') throw new Error(`the reader is ${state}: ${lastError?.message}`);
  });
}

/** Waits until every one of these rows was accepted. */
export async function accepted(reader: Reader, ids: readonly string[], timeoutMs = 20_000): Promise<void> {
  await eventually(
    () => {
      const got = new Set(reader.ids());
      const missing = ids.filter((id) => !got.has(id));
      if (missing.length > 0)
        throw new Error(`${missing.length} of ${ids.length} rows are missing: ${missing.slice(0, 5).join()}`);
    },
    { timeoutMs },
  );
}
