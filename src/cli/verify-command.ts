import { load } from './commands.ts';
import type { CommonOptions } from './commands.ts';
import { describeVerification } from './describe-verification.ts';
import { print, printJson, showProgress } from './print.ts';

interface VerifyOptions extends CommonOptions {
  readonly key?: string[];
  readonly repair?: boolean;
  readonly archive?: string[];
  readonly limit: number;
}

/** Exit code 1 when something is not as the log says, and was not repaired. */
export async function verify(target: string | undefined, options: VerifyOptions): Promise<void> {
  const config = await load(options);
  const { verify: run } = await import('../pipeline/verify.ts');
  const progress = showProgress('verify');
  const verifications = await run(config, {
    target,
    key: options.key ?? [],
    repair: options.repair === true,
    archives: options.archive ?? [],
    limit: options.limit,
    onProgress: (name, text) => progress.show(`${name}, ${text}`),
  });
  progress.end();
  if (options.json) printJson(verifications);
  else print(verifications.map(describeVerification).join('\n\n'));
  if (verifications.some(({ found }) => Object.keys(found).length > 0)) process.exitCode = 1;
}
