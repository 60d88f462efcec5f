import { EmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { load } from './commands.ts';
import type { CommonOptions } from './commands.ts';
import { describeDeadLetters } from './describe-dead-letters.ts';
import { print, printJson } from './print.ts';

interface ChoiceOptions extends CommonOptions {
  readonly target?: string;
}

export async function deadList(options: ChoiceOptions & { closed?: boolean }): Promise<void> {
  const config = await load(options);
  const { listDeadLetters } = await import('../pipeline/dead.ts');
  const letters = await listDeadLetters(config, { target: options.target, closed: options.closed === true });
  if (options.json) printJson(letters);
  else print(describeDeadLetters(letters));
}

export async function deadRetry(ids: string[], options: ChoiceOptions & { all?: boolean }): Promise<void> {
  const all = options.all === true;
  if (all === ids.length > 0) {
    throw new EmendError('bad_arguments', 'dead retry takes either the _ids of dead letters, or --all', {
      remedy: 'emend dead list shows their _ids.',
    });
  }
  const config = await load(options);
  const { retryDeadLetters } = await import('../pipeline/dead.ts');
  const retried = await retryDeadLetters(config, { ids, all, target: options.target });
  if (options.json) printJson(retried);
  else {
    const merged = countOf(retried.merged.length, 'row is', 'rows are');
    const setAside = countOf(retried.setAside.length, 'is', 'are');
    print(`${merged} merged, ${setAside} set aside again`);
    if (retried.staged.length > 0)
      print(`staged, for the promote of their backfills: ${retried.staged.join(', ')}`);
    for (const { _id, reason } of retried.setAside) print(`  ${_id}: ${reason}`);
  }
  if (retried.setAside.length > 0) process.exitCode = 1;
}

export async function deadDiscard(ids: string[], options: CommonOptions & { reason: string }): Promise<void> {
  const config = await load(options);
  const { discardDeadLetters } = await import('../pipeline/dead.ts');
  const { discarded, merged } = await discardDeadLetters(config, ids, options.reason);
  if (options.json) printJson({ discarded, merged });
  else {
    const are = countOf(discarded.length, 'row is', 'rows are');
    print(`${are} discarded; the record is kept (emend dead list --closed)`);
    if (merged.length > 0) print(`merged in the meantime, and so not discarded: ${merged.join(', ')}`);
  }
}
