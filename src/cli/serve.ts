import type { ResolvedConfig } from '../config/resolved-config.ts';
import { createLogger } from '../observe/logger.ts';
import type { PipelineOptions, Role } from '../pipeline/pipeline.ts';

/** Runs the pipeline until a signal, or until it cannot go on. */
export async function serve(
  config: ResolvedConfig,
  roles: readonly Role[],
  options: Pick<PipelineOptions, 'share' | 'queueTuning' | 'sweepTuning'> = {},
): Promise<void> {
  const log = createLogger({
    level: process.env['EMEND_LOG_LEVEL'],
    fields: { role: roles.join('+'), pid: process.pid },
  });
  const signalled = firstSignal();
  const { startPipeline } = await import('../pipeline/pipeline.ts');
  const pipeline = await startPipeline({ config, roles, log, ...options });
  try {
    const signal = await Promise.race([signalled, pipeline.ended]);
    log.info({ signal }, 'stopping');
  } finally {
    await pipeline.stop();
  }
  log.info({}, 'stopped');
}

/** Whatever hangs then is cut off; being killed at any moment loses nothing. */
const shutdownMs = 10_000;

/** The first signal asks for an orderly end; the next one is meant. */
function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (asked) process.exit(signal === 'SIGINT' ? 130 : 143);
      asked = true;
      setTimeout(() => process.exit(1), shutdownMs).unref();
      resolve(signal);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
