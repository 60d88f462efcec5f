import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { startPostgres } from '../../src/dev/postgres.ts';
import type { LocalPostgres } from '../../src/dev/postgres.ts';
import { eventually } from './eventually.ts';
import { query } from './query.ts';

/** A server of its own, to be stopped, put back to an older state, or replaced by its standby, always under one URL. */
export interface SourceServer {
  /** The database `source`. */
  readonly url: string;
  /** Until `restart`. */
  stop(): Promise<void>;
  /** Stops it, and starts it again, with other settings if any are given. */
  restart(flags?: Flags): Promise<void>;
  /** Copies its folder while it is stopped. */
  backUp(): Promise<void>;
  /** Puts the copy in place of its folder: what was written since is gone. With `keepSlots`, the slots are left as they were. */
  restore(options?: { keepSlots?: boolean }): Promise<void>;
  /** Makes a standby from a copy, which follows until `cutOff`. */
  startStandby(): Promise<Standby>;
}

export interface Standby {
  /** Resolves once it has replayed all that was written before the call. */
  caughtUp(): Promise<void>;
  /** From now on it lags: nothing reaches it. */
  cutOff(): Promise<void>;
  /** The server is killed; the standby takes its place, with what it had. */
  promote(): Promise<void>;
}

type Flags = Readonly<Record<string, string>>;

/** Started for one test, and removed after it; with `afterAll`, for all tests of a file. */
export async function startSourceServer(
  flags: Flags = {},
  whenOver: (stop: () => Promise<void>) => void = onTestFinished,
): Promise<SourceServer> {
  // named as the run's own folder, so that the next run removes what a killed one leaves
  const dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-`));
  const [main, copy, other] = ['main', 'copy', 'standby'].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  const start = (dataDir: string, port?: number, more: Flags = {}): Promise<LocalPostgres> => {
    const binDir = process.env['EMEND_TEST_PG_BIN'];
    return startPostgres({
      dataDir,
      persistent: true,
      fast: true,
      flags: { shared_buffers: '32MB', ...flags, ...more },
      ...(port === undefined ? {} : { port }),
      ...(binDir === undefined || binDir === '' ? {} : { binDir }),
    });
  };
  let server = await start(main);
  let standby: LocalPostgres | undefined;
  whenOver(async () => {
    await Promise.all([server.stop(), standby?.stop()]);
    rmSync(dir, { recursive: true, force: true });
  });
  await server.createDatabase('source');
  const { port } = server;

  /** With owners: the server runs as another user where tests run as root. */
  async function copyOf(folder: string, to: string): Promise<void> {
    rmSync(to, { recursive: true, force: true });
    execFileSync('cp', ['-a', folder, to]);
  }

  return {
    url: server.url('source'),
    stop: () => server.stop(),
    async restart(more = {}) {
      await server.stop();
      server = await start(main, port, more);
    },
    async backUp() {
      await server.stop();
      await copyOf(main, copy);
      server = await start(main, port);
    },
    async restore({ keepSlots = false } = {}) {
      await server.stop();
      if (keepSlots) await copyOf(join(main, 'pg_replslot'), join(copy, 'pg_replslot'));
      await copyOf(copy, main);
      server = await start(main, port);
    },
    async startStandby() {
      await server.stop();
      await copyOf(main, other);
      // as a base backup leaves them out: a standby has no slots of its server
      for (const slot of readdirSync(join(other, 'pg_replslot')))
        rmSync(join(other, 'pg_replslot', slot), { recursive: true });
      writeFileSync(join(other, 'standby.signal'), '');
      server = await start(main, port);
      const { password } = new URL(server.url());
      standby = await start(other, undefined, {
        primary_conninfo: `host=127.0.0.1 port=${port} user=postgres password=${password}`,
      });
      return {
        async caughtUp() {
          const [row] = await query<{ lsn: string }>(
            server.url(),
            'select pg_current_wal_insert_lsn()::text as lsn',
          );
          await eventually(async () => {
            const [replayed] = await query<{ done: boolean }>(
              standby!.url(),
              'select pg_last_wal_replay_lsn() >= $1::pg_lsn as done',
              [row!.lsn],
            );
            if (replayed?.done !== true) throw new Error('the standby has not caught up');
          });
        },
        cutOff: () => standby!.stop(),
        async promote() {
          await server.kill();
          server = await start(other, port);
          await query(server.url(), 'select pg_promote()');
        },
      };
    },
  };
}
