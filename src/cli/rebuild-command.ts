import { EmendError } from '../errors.ts';
import { load } from './commands.ts';
import type { CommonOptions } from './commands.ts';
import { describeAsKnown, describeRebuild, describeRebuilds } from './describe-rebuild.ts';
import { print, printJson, showProgress } from './print.ts';

interface RebuildOptions extends CommonOptions {
  readonly swap?: boolean;
  readonly knownAt?: string;
  readonly into?: string;
  readonly reason?: string;
  readonly archive?: string[];
  /** What `archive` was called once. */
  readonly from?: string[];
  readonly limit: number;
}

/** Exit code 1 when something is not as the log says after it. */
export async function rebuild(target: string, options: RebuildOptions): Promise<void> {
  const { into, knownAt, swap, reason, archive = [], from = [], limit } = options;
  refuseMixed(target, options);
  const config = await load(options);
  const pipeline = await import('../pipeline/rebuild.ts');
  const progress = showProgress(`rebuild ${target}`);
  const common = {
    reason,
    archives: [...archive, ...from],
    limit,
    onProgress: (text: string) => progress.show(text),
  };
  if (into !== undefined) {
    const written = await pipeline.rebuildInto(config, target, { into, knownAt, ...common });
    progress.end();
    if (options.json) printJson(written);
    else print(describeAsKnown(written));
    if (written.uncertain > 0) process.exitCode = 1;
    return;
  }
  const rebuilt = await pipeline.rebuild(config, target, { swap: swap === true, ...common });
  progress.end();
  if (options.json) printJson(rebuilt);
  else print(describeRebuild(rebuilt));
  const isWell =
    rebuilt.outcome === 'swapped'
      ? rebuilt.leftAlone + rebuilt.gaps.length + rebuilt.unread.length === 0
      : Object.keys(rebuilt.found).length === 0;
  if (!isWell) process.exitCode = 1;
}

export async function rebuilds(options: CommonOptions & { target?: string; limit: number }): Promise<void> {
  const config = await load(options);
  const { listRebuilds } = await import('../pipeline/list-rebuilds.ts');
  const records = await listRebuilds(config, { target: options.target, limit: options.limit });
  if (options.json) printJson(records);
  else print(describeRebuilds(records));
}

function refuseMixed(target: string, { swap, knownAt, into }: RebuildOptions): void {
  if (swap === true && (knownAt !== undefined || into !== undefined)) {
    throw new EmendError(
      'bad_arguments',
      `${target} as it was known at a time cannot be swapped in: what was told since would be forgotten, and the greatest version not win`,
      {
        remedy:
          'Leave --swap out, and write it to a table of its own with --into; to take corrections back, see emend undo and emend backfill revert.',
      },
    );
  }
  if (knownAt !== undefined && into === undefined) {
    throw new EmendError('bad_arguments', '--known-at wants a table to write to', {
      remedy: `Write emend rebuild ${target} --known-at … --into schema.table`,
    });
  }
}
