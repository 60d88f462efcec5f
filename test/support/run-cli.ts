import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';

/** The real CLI from its sources, as a process of its own. */
export interface CliRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Cli {
  /** Runs a command to its end. */
  run(args: readonly string[], env?: Record<string, string>): Promise<CliRun>;
  /** The JSON that a command printed; fails when it did not end well. */
  json<T>(args: readonly string[], env?: Record<string, string>): Promise<T>;
  /** Starts a command that goes on; it is killed after the test file at the latest. */
  start(args: readonly string[], env?: Record<string, string>): StartedCli;
  readonly dir: string;
}

export interface StartedCli {
  readonly process: ChildProcess;
  readonly ended: Promise<CliRun>;
  /** What it wrote to stderr so far. */
  stderr(): string;
  /** Resolves once the text stands in what it wrote to stderr; rejects when it ends before. */
  said(text: string): Promise<void>;
}

const root = fileURLToPath(new URL('../..', import.meta.url));
const jiti = join(dirname(createRequire(import.meta.url).resolve('jiti/package.json')), 'lib/jiti-cli.mjs');

const dirs: string[] = [];
const started: StartedCli[] = [];

// once a test file, as this module is loaded: a test may make a CLI too, when it is too late to say what comes after all
afterAll(async () => {
  for (const { process: child } of started) child.kill('SIGKILL');
  await Promise.all(started.map((each) => each.ended));
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

/** A folder with this text as `emend.config.ts`, in which commands run. */
export function createCli(config: string, env: Record<string, string> = {}): Cli {
  const dir = mkdtempSync(join(tmpdir(), 'emend-cli-'));
  writeFileSync(join(dir, 'emend.config.ts'), config);
  dirs.push(dir);
  const running = new Set<StartedCli>();

  function start(args: readonly string[], extra: Record<string, string> = {}): StartedCli {
    const child = spawn(process.execPath, [jiti, resolve(root, 'src/cli/cli.ts'), ...args], {
      cwd: dir,
      env: { ...cleanEnv(), JITI_FS_CACHE: join(root, 'node_modules/.cache/jiti'), ...env, ...extra },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const one = follow(child);
    started.push(one);
    running.add(one);
    void one.ended.then(() => running.delete(one));
    return one;
  }

  const run: Cli['run'] = (args, extra) => start(args, extra).ended;
  return {
    dir,
    start,
    run,
    async json<T>(args: readonly string[], extra?: Record<string, string>): Promise<T> {
      const { code, stdout, stderr } = await run([...args, '--json'], extra);
      if (code !== 0) {
        const said = [...running].map((each) => each.stderr()).join('\n');
        throw new Error(
          `emend ${args.join(' ')} ended with ${code}: ${stderr}\nmeanwhile others said:\n${said}`,
        );
      }
      return JSON.parse(stdout) as T;
    },
  };
}

function follow(child: ChildProcess): StartedCli {
  let stdout = '';
  let stderr = '';
  const listeners = new Set<() => void>();
  child.stdout!.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    for (const listener of listeners) listener();
  });
  const ended = new Promise<CliRun>((done) => {
    child.on('close', (code) => done({ code, stdout, stderr }));
  });
  const said = (text: string): Promise<void> =>
    new Promise((done, fail) => {
      const look = (): void => {
        if (stderr.includes(text)) done();
      };
      listeners.add(look);
      look();
      void ended.then(({ code }) =>
        fail(new Error(`it ended with ${code} before it said "${text}": ${stderr}`)),
      );
    });
  return { process: child, ended, said, stderr: () => stderr };
}

/** The URLs of whoever runs the tests are not those of a test. */
function cleanEnv(): NodeJS.ProcessEnv {
  const {
    SOURCE_URL: _source,
    REPLICATION_URL: _replication,
    STORE_URL: _store,
    REDIS_URL: _redis,
    ...rest
  } = process.env;
  return rest;
}
