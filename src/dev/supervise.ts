import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { once } from 'node:events';
import { EmendError } from '../errors.ts';

/**
 * Runs a server that lives exactly as long as this process wants it to.
 *
 * Between us and the server stands a small shell that reads from a pipe whose other end only we hold. Whatever ends us
 * (a normal exit, a signal, an uncaught error, kill -9), the kernel closes that pipe, and the shell stops the server and
 * removes its folder if it was a temporary one. So no signal handler is installed in the host process. The shell is the
 * server's parent, which means that it can never signal a process that merely got the same number later.
 *
 * Arguments of the script: signal that stops the server, folder to remove afterwards (or empty), command and its arguments.
 */
const supervisor = `
stop=$1; remove=$2; shift 2
exec 3<&0
"$@" </dev/null 3<&- >&2 & server=$!
echo "$server"; exec >&2
trap 'kill -s "$stop" "$server" 2>/dev/null' INT TERM HUP
(
  trap - INT TERM HUP
  read -r _ <&3
  kill -s "$stop" "$server" 2>/dev/null
  left=100
  while kill -0 "$server" 2>/dev/null && [ "$left" -gt 0 ]; do left=$((left - 1)); sleep 0.2; done
  kill -s QUIT "$server" 2>/dev/null
) & watcher=$!
code=0
while :; do
  wait "$server"; code=$?
  kill -0 "$server" 2>/dev/null || break
done
kill "$watcher" 2>/dev/null
if [ -n "$remove" ]; then rm -rf -- "$remove"; fi
exit "$code"
`;

export interface SuperviseOptions {
  readonly command: readonly string[];
  /** Fast but orderly shutdown: INT for Postgres, TERM for Redis. */
  readonly stopSignal: 'INT' | 'TERM';
  /** What the server prints goes to the end of this file. */
  readonly logFile: string;
  readonly cwd: string;
  /** Removed when the server has ended, also after kill -9 of this process. */
  readonly removeAfterwards?: string;
  readonly env?: NodeJS.ProcessEnv;
}

export interface Supervised {
  /** Process id of the server itself. */
  readonly pid: number;
  readonly exited: Promise<void>;
  readonly running: () => boolean;
  /** Stops the server in an orderly way and waits until it is gone (and its folder, if temporary). */
  readonly stop: () => Promise<void>;
  /** kill -9, as a crash would be. */
  readonly kill: () => Promise<void>;
  /** The last lines that the server printed, for error messages. */
  readonly lastLines: () => string;
}

export async function supervise(options: SuperviseOptions): Promise<Supervised> {
  const log = openSync(options.logFile, 'a', 0o600);
  const child = spawn(
    '/bin/sh',
    [
      '-c',
      supervisor,
      'emend-supervisor',
      options.stopSignal,
      options.removeAfterwards ?? '',
      ...options.command,
    ],
    // A session of its own: Ctrl-C in the terminal reaches only us, and we decide in which order things stop.
    { detached: true, cwd: options.cwd, env: options.env ?? process.env, stdio: ['pipe', 'pipe', log] },
  );
  closeSync(log);
  const logReader = openSync(options.logFile, 'r'); // still readable when the folder went with the server
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error('spawn gave no pipes');
  let running = true;
  let lastWords = '';
  const exited = new Promise<void>((resolve) => {
    const ended = (): void => {
      if (!running) return;
      running = false;
      lastWords = readTail(logReader);
      closeSync(logReader);
      stdin.destroy();
      resolve();
    };
    child.once('exit', ended);
    child.once('error', ended);
  });
  stdin.on('error', () => undefined); // the server ended first; `exited` tells

  let printed = '';
  stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  await Promise.race([once(stdout, 'end'), exited]);
  const pid = Number.parseInt(printed, 10);
  if (!Number.isInteger(pid)) {
    throw new EmendError('dependency_missing', 'could not start /bin/sh to run a local server', {
      remedy: 'Set SOURCE_URL, STORE_URL and REDIS_URL to servers that run already.',
    });
  }

  // Neither the shell nor its pipes keep this process alive: who forgets to stop may still exit.
  child.unref();
  unref(stdin);
  unref(stdout);

  // While somebody waits for the end, the process has to live: an unreferenced child would let node exit in between.
  const waitForEnd = async (): Promise<void> => {
    child.ref();
    await exited;
  };
  return {
    pid,
    exited,
    running: () => running,
    stop: async () => {
      stdin.end();
      await waitForEnd();
    },
    kill: async () => {
      if (running) process.kill(pid, 'SIGKILL');
      await waitForEnd();
    },
    lastLines: () => (running ? readTail(logReader) : lastWords),
  };
}

function readTail(file: number): string {
  const { size } = fstatSync(file);
  const bytes = Buffer.alloc(Math.min(size, 8_192));
  readSync(file, bytes, 0, bytes.length, size - bytes.length);
  return bytes.toString().trimEnd().split('\n').slice(-8).join('\n');
}

function unref(stream: object): void {
  if ('unref' in stream && typeof stream.unref === 'function') stream.unref();
}
