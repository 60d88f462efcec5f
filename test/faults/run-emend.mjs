// `emend <roles>` of the built package, with a shorter job lock (what a killed worker had at work comes back within seconds), unless
// EMEND_FAULTS_REAL_LOCKS is set. Its arguments are the roles; a reader reads the share EMEND_FAULTS_SHARE, or all. It ends with
// the process that started it.
import { writeFileSync } from 'node:fs';
import { readConfig } from '../../dist/config/config.js';
import { reportError } from '../../dist/cli/report-error.js';
import { serve } from '../../dist/cli/serve.js';

process.stdin.on('end', () => process.exit(1)).resume();

const heapDir = process.env.EMEND_FAULTS_HEAP_DIR;
if (heapDir) {
  const write = () => writeFileSync(`${heapDir}/${process.pid}`, String(process.memoryUsage().heapUsed));
  setInterval(write, 1_000).unref();
}

const shorter = { lockMs: 3_000, stalledCheckMs: 1_000, stuckMs: 8_000, lastRetryMs: 3_000 };
// the ledger of some ten thousand rows is compacted while it grows
const sweepTuning = process.env.EMEND_FAULTS_COMPACTS
  ? { compactMs: 200, ledgerKeepRows: 1, ledgerMinAgeMs: 300 }
  : {};
const share = process.env.EMEND_FAULTS_SHARE ? Number(process.env.EMEND_FAULTS_SHARE) : undefined;
const queueTuning = process.env.EMEND_FAULTS_REAL_LOCKS ? {} : shorter;
try {
  const config = await readConfig({ file: null, cwd: process.cwd(), env: process.env });
  // smaller than a configuration may say, so that batches go by reference
  const maxBytes = Number(process.env.EMEND_FAULTS_MAX_BYTES ?? config.queue.maxBytes);
  const { queue, ...rest } = config;
  await serve({ ...rest, queue: { ...queue, maxBytes } }, process.argv.slice(2), {
    share,
    queueTuning,
    sweepTuning,
  });
  process.exit(0);
} catch (error) {
  process.exit(reportError(error, false));
}
