import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { eventually } from '../support/eventually.ts';
import type { Role } from '../../src/pipeline/pipeline.ts';

/** Reader and workers as processes of their own, under a supervisor that starts again whatever ends. */
export interface Processes {
  /** kill -9; it is started again after so long. */
  kill(process: Supervised, downMs: number): void;
  /** SIGSTOP, and SIGCONT after so long. */
  stopFor(process: Supervised, forMs: number): Promise<void>;
  readonly readers: readonly Supervised[];
  readonly workers: readonly Supervised[];
  /** Resolves once all run and the source is being read. */
  ready(): Promise<void>;
  /** Ends all in an orderly way, and returns what a supervisor would call a fault of theirs. */
  end(): Promise<string[]>;
  /** All that they wrote to stderr. */
  output(): string;
}

export interface Supervised {
  readonly name: string;
  readonly pid: number | undefined;
}

interface Place extends Supervised {
  readonly roles: readonly Role[];
  child: ChildProcess | undefined;
  downMs: number;
  isRunning: boolean;
}

const program = fileURLToPath(new URL('run-emend.mjs', import.meta.url));
const restartPauseMs = 200;
/** The product promises to end within 10 s. */
const endWithinMs = 12_000;

export function startProcesses(
  options: {
    readonly dir: string;
    readonly env: NodeJS.ProcessEnv;
    /** A command that runs another one elsewhere, as itself: `ip netns exec …`. */
    readonly through?: readonly string[];
  },
  counts: { readonly readers: number; readonly workers: number },
): Processes {
  const faults: string[] = [];
  let said = '';
  let isEnding = false;

  function place(name: string, roles: readonly Role[]): Place {
    const made: Place = {
      name,
      roles,
      child: undefined,
      downMs: restartPauseMs,
      isRunning: false,
      get pid() {
        return made.child?.pid;
      },
    };
    start(made);
    return made;
  }

  function start(of: Place): void {
    const [file, ...args] = [...(options.through ?? []), process.execPath, program, ...of.roles];
    const child = spawn(file!, args, {
      cwd: options.dir,
      env: options.env,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    of.child = child;
    of.isRunning = false;
    child.stdin!.on('error', () => undefined);
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said += text.replaceAll(/^(?=.)/gm, `${of.name} `);
      if (text.includes('emend is running')) of.isRunning = true;
    });
    child.once('exit', (code, signal) => ended(of, code, signal));
  }

  function ended(of: Place, code: number | null, signal: NodeJS.Signals | null): void {
    of.child = undefined;
    said += `${of.name} ended with ${code ?? signal}\n`;
    if (isEnding) {
      if (of.isRunning && code !== 0)
        faults.push(`${of.name} ended with ${code ?? signal} when it was asked to`);
      return;
    }
    if (signal === null) {
      if (of.isRunning) faults.push(`${of.name} gave up (${code}) although nobody has to act`);
      // 2 says that the configuration has to change
      else if (code !== 1)
        faults.push(`${of.name} did not start, with exit code ${code}, while a server was away`);
    }
    const { downMs } = of;
    of.downMs = restartPauseMs;
    void sleep(downMs).then(() => {
      if (!isEnding) start(of);
    });
  }

  const readers = Array.from({ length: counts.readers }, (_, index) => place(`reader-${index}`, ['reader']));
  const workers = Array.from({ length: counts.workers }, (_, index) => place(`worker-${index}`, ['worker']));
  const all = [...readers, ...workers];

  return {
    readers,
    workers,
    ready: () =>
      eventually(
        () => {
          if (!all.every(({ isRunning }) => isRunning) || !said.includes('reading the source'))
            throw new Error(`the processes do not come up: ${said}`);
        },
        { timeoutMs: 60_000 },
      ),
    kill(of, downMs) {
      (of as Place).downMs = downMs;
      (of as Place).child?.kill('SIGKILL');
    },
    async stopFor(of, forMs) {
      const { child } = of as Place;
      child?.kill('SIGSTOP');
      await sleep(forMs);
      child?.kill('SIGCONT');
    },
    async end() {
      isEnding = true;
      await Promise.all(
        all.map(async (each) => {
          const { child } = each;
          if (!child) return;
          const exit = once(child, 'exit');
          child.kill('SIGTERM');
          const late = new AbortController();
          const killing = sleep(endWithinMs, undefined, { signal: late.signal }).then(
            () => child.kill('SIGKILL'),
            () => undefined,
          );
          await exit;
          late.abort();
          await killing;
        }),
      );
      return faults;
    },
    output: () => said,
  };
}
