import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/**
 * A contestant's program. It says `ready` once it listens, and `done <rows>` when so many rows, since it began, stand in the
 * store. Between its turns it stands still (SIGSTOP), so that it is warm and takes nothing from the others.
 */
export interface Program {
  untilDone(rows: number): Promise<void>;
  pause(): void;
  resume(): void;
  end(): Promise<void>;
}

export async function startProgram(
  command: readonly [string, ...string[]],
  env: Readonly<Record<string, string>>,
): Promise<Program> {
  const [file, ...args] = command;
  const child = spawn(file, args, {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4_000)));
  let isReady = false;
  let done = 0;
  let failure: Error | undefined;
  let look = (): void => undefined;
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'ready') isReady = true;
    const rows = /^done (\d+)$/.exec(line)?.[1];
    if (rows !== undefined) done = Number(rows);
    look();
  });
  const exited = once(child, 'exit');
  child.once('exit', (code, signal) => {
    failure = new Error(`${command.join(' ')} ended with ${code ?? signal}:\n${said}`);
    look();
  });
  const until = (isSo: () => boolean) =>
    new Promise<void>((resolve, reject) => {
      look = () => {
        if (failure) reject(failure);
        else if (isSo()) resolve();
      };
      look();
    });
  await until(() => isReady);
  return {
    untilDone: (rows) => until(() => done >= rows),
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    end: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
