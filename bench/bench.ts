/**
 * Measures emend side by side with what one would take instead: `npm run bench [-- --quick] [-- <comparison> …]`.
 *
 * Promise: contestants do the same seeded work on the same servers, in turn, round by round; no figure of a contestant counts
 * unless what it left behind is right. Ratios of one run bind; absolute figures depend on the machine and its neighbours.
 *
 * Each comparison is written to a file of its own when it is over; `--resume` goes on with the last run, with those that are missing.
 */
import { availableParallelism, loadavg, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { backfillLive, backfillLoading } from './comparisons/backfill-load.ts';
import { backfillGrowth, backfillPromote } from './comparisons/backfill-promote.ts';
import { backfillYear } from './comparisons/backfill-year.ts';
import { batchSize } from './comparisons/batch-size.ts';
import { factsHalf, factsInserts, factsOneTransaction } from './comparisons/facts.ts';
import { growth } from './comparisons/growth.ts';
import { historyLength } from './comparisons/history-length.ts';
import { latency } from './comparisons/latency.ts';
import { logAge } from './comparisons/log-age.ts';
import { mergeLimits } from './comparisons/merge-limits.ts';
import { guardedLoad, guardedMerge } from './comparisons/overlap-guard.ts';
import { scaling } from './comparisons/scaling.ts';
import { timelines } from './comparisons/timelines.ts';
import { fullSize, quickSize } from './harness/comparison.ts';
import type { Size } from './harness/comparison.ts';
import { judge, table } from './harness/report.ts';
import type { Result } from './harness/report.ts';
import { openResults } from './harness/results.ts';
import { startBenchServers } from './harness/servers.ts';

const comparisons = [
  factsInserts,
  factsHalf,
  factsOneTransaction,
  timelines,
  latency,
  scaling,
  growth,
  logAge,
  mergeLimits,
  historyLength,
  guardedMerge,
  guardedLoad,
  batchSize,
  backfillPromote,
  backfillGrowth,
  backfillYear,
  backfillLoading,
  backfillLive,
];

const flags = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
const asked = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const unknown = [
  ...asked.filter((name) => !comparisons.some((comparison) => comparison.name === name)),
  ...flags.filter((flag) => !/^--(quick|resume|history=\d+|postgres=.+|buffers=\d+[MG]B)$/.test(flag)),
];
if (unknown.length > 0) {
  console.error(
    `There is no ${unknown.join(', ')}; there is ${comparisons.map(({ name }) => name).join(', ')}, ` +
      '--quick, --resume, --history=<rows>, --postgres=<folder> and --buffers=<size>.',
  );
  process.exit(2);
}

const quick = flags.includes('--quick');
const valueOf = (name: string) => flags.find((flag) => flag.startsWith(`--${name}=`))?.split('=')[1];
const history = valueOf('history');
const binDir = valueOf('postgres');
const buffers = valueOf('buffers');
const size: Size = {
  ...(quick ? quickSize : fullSize),
  ...(history === undefined ? {} : { historyRows: Number(history) }),
};
const store = openResults({ resume: flags.includes('--resume'), quick });
const results: Result[] = [];
const servers = await startBenchServers(fileURLToPath(new URL('../.emend/bench', import.meta.url)), {
  copy: quick ? 'wal_log' : 'file_copy',
  ...(binDir === undefined ? {} : { binDir }),
  ...(buffers === undefined ? {} : { buffers }),
});
try {
  for (const comparison of comparisons) {
    if (asked.length > 0 ? !asked.includes(comparison.name) : store.has(comparison.name)) continue;
    console.log(`${comparison.name} …`);
    const started = performance.now();
    const loadBefore = loadavg()[0]!;
    const result = judge(comparison, await comparison.measure(servers, size), { binds: !quick });
    results.push(result);
    store.write({
      about: {
        date: new Date().toISOString(),
        quick,
        postgres: servers.version,
        buffers: servers.buffers,
        node: process.version,
        cores: availableParallelism(),
        memoryGiB: Math.round(totalmem() / 2 ** 30),
        // what else the machine did: above its cores before a comparison has begun, figures are not to be published
        load: [loadBefore, loadavg()[0]!],
        seconds: Math.round((performance.now() - started) / 1000),
      },
      ...result,
    });
    console.log(
      `\n${table(result)}\n${comparison.name}: ${Math.round((performance.now() - started) / 1000)} s, load before ${loadBefore.toFixed(1)}`,
    );
  }
} finally {
  await servers.stop();
}
console.log(`written to ${store.dir}`);

const broken = results.flatMap(({ ratios }) => ratios).filter(({ kept }) => !kept);
if (broken.length > 0) process.exitCode = 1;
