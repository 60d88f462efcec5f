/**
 * Measures emend side by side with what one would take instead: `npm run bench [-- --quick] [-- <comparison> …]`.
 *
 * Promise: contestants do the same seeded work on the same server, in turn, round by round; no figure of a contestant counts
 * unless what it left behind is right. Ratios of one run bind; absolute figures depend on the machine and its neighbours.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { batchSize } from './comparisons/batch-size.ts';
import { historyLength } from './comparisons/history-length.ts';
import { mergeLimits } from './comparisons/merge-limits.ts';
import { guardedLoad, guardedMerge } from './comparisons/overlap-guard.ts';
import { fullSize, quickSize } from './harness/comparison.ts';
import { judge, table } from './harness/report.ts';
import type { Result } from './harness/report.ts';
import { startBenchServer } from './harness/server.ts';

const comparisons = [mergeLimits, historyLength, guardedMerge, guardedLoad, batchSize];

const quick = process.argv.includes('--quick');
const asked = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const unknown = asked.filter((name) => !comparisons.some((comparison) => comparison.name === name));
if (unknown.length > 0) {
  console.error(
    `There is no ${unknown.join(', ')}; there is ${comparisons.map(({ name }) => name).join(', ')}.`,
  );
  process.exit(2);
}

const results: Result[] = [];
const dataDir = fileURLToPath(new URL('../.emend/bench', import.meta.url));
const server = await startBenchServer(dataDir, quick ? 'wal_log' : 'file_copy');
const about = {
  date: new Date().toISOString(),
  quick,
  postgres: server.version,
  node: process.version,
  cores: availableParallelism(),
  memoryGiB: Math.round(totalmem() / 2 ** 30),
};
try {
  console.log(JSON.stringify(about));
  for (const comparison of comparisons) {
    if (asked.length > 0 && !asked.includes(comparison.name)) continue;
    const started = performance.now();
    const measured = await comparison.measure(server, quick ? quickSize : fullSize);
    const result = judge(comparison, measured);
    results.push(result);
    console.log(
      `\n${table(result)}\n${comparison.name}: ${Math.round((performance.now() - started) / 1000)} s`,
    );
  }
} finally {
  await server.stop();
}

const file = new URL(`./results/${about.date.replace(/[:.]/g, '-')}.json`, import.meta.url);
mkdirSync(new URL('.', file), { recursive: true });
writeFileSync(file, JSON.stringify({ about, results }, null, 2));
console.log(`written to ${fileURLToPath(file)}`);

// quick figures are too small to bind
const broken = results.flatMap(({ ratios }) => ratios).filter(({ kept }) => !kept);
if (broken.length > 0 && !quick) process.exitCode = 1;
