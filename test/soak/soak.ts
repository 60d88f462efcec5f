/**
 * Steady load on every kind of target while things are killed, for as long as is asked: whether anything is lost, and whether
 * anything grows that should not.
 *
 * Reader and workers are processes of the built package, servers are real. For the first two fifths of the time anything is killed;
 * then one reader and one worker are let live, and what they and the servers hold is judged over the rest (`flat.ts`). In the end
 * everything has to be merged, `status` has to name nothing, and `verify` to find nothing.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../bench/harness/random.ts';
import { createBuiltCli } from '../faults/built-cli.ts';
import type { BuiltCli } from '../faults/built-cli.ts';
import { startProcesses } from '../faults/processes.ts';
import { startServers } from '../faults/servers.ts';
import type { Servers } from '../faults/servers.ts';
import { configTextOf, ddl } from '../faults/targets.ts';
import { eventually } from '../support/eventually.ts';
import { query } from '../support/query.ts';
import { runChaos } from './chaos.ts';
import { judge } from './flat.ts';
import { runLoad } from './load.ts';
import { startSamples } from './samples.ts';
import type { Samples } from './samples.ts';

const wildShare = 0.4;
/** What is let live is warm then. */
const warmUpShare = 0.1;

/** Whether all is well; everything that was seen goes to stdout. */
export async function soak(durationMs: number): Promise<boolean> {
  const seed = Number(process.env['EMEND_SOAK_SEED'] ?? randomBytes(4).readUInt32LE());
  print(`${durationMs / 60_000} minutes, EMEND_SOAK_SEED=${seed}`);
  const servers = await startServers();
  try {
    return await soakOn(servers, durationMs, seed);
  } finally {
    await servers.stop();
  }
}

async function soakOn(servers: Servers, durationMs: number, seed: number): Promise<boolean> {
  await query(servers.source.url(), 'create database soak');
  await query(servers.store.url(), 'create database soak');
  const [sourceUrl, storeUrl, redisUrl] = [
    servers.source.url('soak'),
    servers.store.url('soak'),
    servers.redis.url,
  ];
  await query(storeUrl, ddl);
  const cli = createBuiltCli(configTextOf(1), {
    SOURCE_URL: sourceUrl,
    STORE_URL: storeUrl,
    REDIS_URL: redisUrl,
  });
  const heapDir = join(cli.dir, 'heap');
  mkdirSync(heapDir);
  await cli.expect(['migrate']);
  const processes = startProcesses(
    { dir: cli.dir, env: { ...cli.env, EMEND_FAULTS_HEAP_DIR: heapDir, EMEND_LOG_LEVEL: 'warn' } },
    { readers: 1, workers: 3 },
  );
  const ending = new AbortController();
  const { signal } = ending;
  const random = createRandom(seed);
  const loaded = { rows: 0, transactions: 0, promoted: 0, reverted: 0 };
  const done: Record<string, number> = {};
  try {
    const watched = { 'the reader': processes.readers[0]!, 'a worker': processes.workers[0]! };
    const samples = startSamples({ sourceUrl, storeUrl, redisUrl, watched, heapDir, signal });
    const sparesFromMs = durationMs * wildShare;
    const running = Promise.all([
      runLoad({ sourceUrl, random, signal, loaded }),
      runChaos({ servers, processes, sourceUrl, storeUrl, random, signal, sparesFromMs, done }),
      samples.ended,
    ]);
    await Promise.race([sleep(durationMs, undefined, { signal }), running]);
    ending.abort();
    await running;
    const problems = [...(await atRest(cli)), ...(await processes.end())];
    const isFlat = report(samples, durationMs * (wildShare + warmUpShare));
    print(`\n${describe(loaded)}\n${describe(done)}`);
    for (const problem of problems) print(`! ${problem}`);
    return isFlat && problems.length === 0;
  } finally {
    ending.abort();
    await processes.end();
    cli.remove();
  }
}

/** What is not well once nothing goes wrong any more. */
async function atRest(cli: BuiltCli): Promise<string[]> {
  const problems: string[] = [];
  const check = async (args: string[]): Promise<void> => {
    const { code, stdout, stderr } = await cli.run(args);
    if (code !== 0) problems.push(`emend ${args.join(' ')} ended with ${code}:\n${stdout}${stderr}`);
  };
  await check(['wait', '--timeout', '180']);
  await eventually(
    async () => {
      const { code, stdout } = await cli.run(['status']);
      if (code !== 0) throw new Error(`emend status: ${stdout}`);
    },
    { timeoutMs: 120_000 },
  ).catch((error: unknown) => problems.push((error as Error).message));
  await check(['verify']);
  return problems;
}

function report(samples: Samples, fromMs: number): boolean {
  const judged = samples.series(fromMs).map((series) => ({ series, verdict: judge(series) }));
  print(
    `\n${'over the judged time'.padEnd(36)}${['first half', 'second half', 'rise', 'may rise'].map((head) => head.padStart(13)).join('')}`,
  );
  for (const { series, verdict } of judged) {
    const figures = [verdict.first, verdict.second, verdict.rise, verdict.bound];
    print(
      `${series.name.padEnd(36)}${figures.map((figure) => figure.toFixed(1).padStart(13)).join('')} ${series.unit.padEnd(6)} ${verdict.isFlat ? '' : 'NOT FLAT'}`,
    );
  }
  return judged.every(({ verdict }) => verdict.isFlat);
}

function describe(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name}: ${count}`)
    .join(', ');
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
