// `emend <roles>` of the built package, with a shorter job lock: what a killed worker had at work comes back within seconds.
// Its arguments are the roles. It ends with the process that started it.
import { readConfig } from '../../dist/config/config.js';
import { reportError } from '../../dist/cli/report-error.js';
import { serve } from '../../dist/cli/serve.js';

process.stdin.on('end', () => process.exit(1)).resume();

const queueTuning = { lockMs: 3_000, stalledCheckMs: 1_000, stuckMs: 8_000, lastRetryMs: 3_000 };
try {
  const config = await readConfig({ file: null, cwd: process.cwd(), env: process.env });
  await serve(config, process.argv.slice(2), { queueTuning });
  process.exit(0);
} catch (error) {
  process.exit(reportError(error, false));
}
