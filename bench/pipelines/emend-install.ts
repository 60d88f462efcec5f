import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createBuiltCli } from '../../test/faults/built-cli.ts';
import type { BuiltCli } from '../../test/faults/built-cli.ts';
import type { Stream } from '../data/stream.ts';
import type { BenchServers } from '../harness/servers.ts';
import { createWriter, insertInto, openPlace, untilCaughtUp } from './writer.ts';
import type { Place, Write } from './writer.ts';

/** emend as it is shipped: migrated by its command line, run as processes of their own with the default settings. */
export interface EmendInstall {
  readonly cli: BuiltCli;
  readonly source: Place;
  readonly store: Place;
  readonly start: (role: Role) => Promise<Running>;
  /** One of each, once the reader has come to the end of the log. */
  readonly startBoth: () => Promise<Both>;
  /** Ends what still runs. */
  readonly close: () => Promise<void>;
}

/** An install, and what writes the rows of a stream into its log. */
export interface WrittenInstall extends EmendInstall {
  readonly write: Write;
}

type Role = 'reader' | 'worker';

export interface Both {
  readonly reader: Running;
  readonly worker: Running;
  readonly stop: () => Promise<void>;
}

export interface Running {
  readonly pid: number;
  /** User and system time since it began, in microseconds; undefined where the kernel has no /proc. */
  cpuMicroseconds(): number | undefined;
  stop(): Promise<void>;
}

const index = new URL('../../dist/index.js', import.meta.url).href;
const program = fileURLToPath(new URL('../../dist/cli/cli.js', import.meta.url));
const readyWithinMs = 60_000;

/** @param settings more of the configuration, such as `merge: { concurrency: 1 }` */
export async function openEmendInstall(
  servers: BenchServers,
  stream: Stream,
  settings = '',
): Promise<EmendInstall> {
  const source = await openPlace(servers.source);
  const store = await openPlace(servers);
  const cli = createBuiltCli(
    `import { defineConfig, facts, timeline } from '${index}';
     export default defineConfig({ ${settings} targets: { ${stream.target}: ${stream.declaration} } });`,
    { SOURCE_URL: source.url, STORE_URL: store.url, REDIS_URL: await servers.redisUrl() },
  );
  await store.pool.query(stream.ddl);
  if (stream.base !== undefined) await store.pool.query(stream.base);
  await cli.expect(['migrate', ...(stream.base === undefined ? [] : ['--adopt', stream.target])]);
  await store.pool.query('vacuum (analyze)');
  const started: Running[] = [];
  const start = async (role: Role): Promise<Running> => {
    const running = await startProcess(cli, role);
    started.push(running);
    return running;
  };
  return {
    cli,
    source,
    store,
    start,
    startBoth: async () => {
      const [reader, worker] = await Promise.all([start('reader'), start('worker')]);
      await untilCaughtUp(source.pool);
      return { reader, worker, stop: () => stopAll([reader, worker]) };
    },
    close: async () => {
      await stopAll(started);
      await source.close();
      await store.close();
      cli.remove();
    },
  };
}

/** @param settings as of `openEmendInstall` */
export async function openWrittenInstall(
  servers: BenchServers,
  stream: Stream,
  settings?: string,
): Promise<WrittenInstall> {
  const install = await openEmendInstall(servers, stream, settings);
  const log = insertInto(`corrections.${stream.target}`, stream);
  return { ...install, write: await createWriter(install.source.pool, stream, log) };
}

/** `EMEND_BENCH_PROFILE=<folder>`: each process leaves a CPU profile there. */
function profiling(): string[] {
  const dir = process.env['EMEND_BENCH_PROFILE'];
  return dir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${dir}`];
}

async function startProcess(cli: BuiltCli, role: Role): Promise<Running> {
  const child = spawn(process.execPath, [...profiling(), program, role], {
    cwd: cli.dir,
    env: cli.env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const exited = once(child, 'exit');
  const ready = role === 'reader' ? 'reading the source' : 'emend is running';
  const deadline = performance.now() + readyWithinMs;
  while (!said.includes(ready)) {
    if (child.exitCode !== null || performance.now() > deadline) {
      child.kill('SIGKILL');
      throw new Error(`the ${role} does not come up: ${said}`);
    }
    await sleep(20);
  }
  return {
    pid: child.pid!,
    cpuMicroseconds: () => cpuOf(child.pid!),
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function stopAll(running: readonly Running[]): Promise<void> {
  await Promise.all(running.map((one) => one.stop()));
}

/** The kernel counts in ticks of 10 ms (proc(5): utime and stime of /proc/pid/stat). */
function cpuOf(pid: number): number | undefined {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return undefined;
  // the name, in parentheses, may hold blanks
  const fields = readFileSync(file, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}
