import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** The package as it is built: it starts several times as fast as its sources do. */
export interface BuiltCli {
  /** Where its commands run, with the configuration in it. */
  readonly dir: string;
  readonly env: NodeJS.ProcessEnv;
  run(
    args: readonly string[],
    env?: Record<string, string>,
    options?: { readonly endAfterMs?: number },
  ): Promise<CliRun>;
  /** @throws Error with its output, when it does not end well */
  expect(args: readonly string[]): Promise<CliRun>;
  remove(): void;
}

interface CliRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const root = fileURLToPath(new URL('../..', import.meta.url));
const cli = join(root, 'dist/cli/cli.js');

/** Builds the package where it is older than its sources. */
export async function ensureBuilt(): Promise<void> {
  await promisify(execFile)(process.execPath, [join(root, '.ci/prepare.mjs'), '--build']);
}

export function createBuiltCli(configText: string, urls: Record<string, string>): BuiltCli {
  const dir = mkdtempSync(join(tmpdir(), 'emend-faults-'));
  writeFileSync(join(dir, 'emend.config.mjs'), configText);
  const env = { PATH: process.env['PATH'], ...urls };
  const run: BuiltCli['run'] = (args, more = {}, { endAfterMs = 0 } = {}) =>
    new Promise((resolve) => {
      const options = { cwd: dir, env: { ...env, ...more }, timeout: endAfterMs };
      execFile(process.execPath, [cli, ...args], options, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
      );
    });
  return {
    dir,
    env,
    run,
    async expect(args) {
      const done = await run(args);
      if (done.code === 0) return done;
      throw new Error(`emend ${args.join(' ')} ended with ${done.code}:\n${done.stdout}${done.stderr}`);
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}
