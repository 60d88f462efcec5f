import { EmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { load } from './commands.ts';
import type { CommonOptions } from './commands.ts';
import { describeDiverged } from './describe-diverged.ts';
import { print, printJson } from './print.ts';

interface ListOptions extends CommonOptions {
  readonly target?: string;
  readonly closed?: boolean;
  readonly limit: number;
}

export async function divergedList(options: ListOptions): Promise<void> {
  const config = await load(options);
  const { listDiverged } = await import('../pipeline/list-diverged.ts');
  const { target, closed, limit } = options;
  const rows = await listDiverged(config, { target, closed: closed === true, limit });
  if (options.json) printJson(rows);
  else print(describeDiverged(rows, limit));
}

interface DecisionOptions extends CommonOptions {
  readonly target?: string;
  readonly all?: boolean;
  readonly reason: string;
}

export async function divergedAdopt(ids: string[], options: DecisionOptions): Promise<void> {
  requireChoice('adopt', ids, options);
  const config = await load(options);
  const { adoptReused } = await import('../pipeline/diverged.ts');
  const result = await adoptReused(config, { ...options, ids }, options.reason);
  if (options.json) printJson(result);
  else {
    const { adopted, gone } = result;
    print(`${countOf(adopted.length, 'row is', 'rows are')} written again, to be merged as new corrections`);
    for (const { target, _id, new_id } of adopted) print(`  ${target}: ${_id} as ${new_id}`);
    if (gone.length > 0) print(`no longer in the log, and left as they are: ${gone.join(', ')}`);
  }
}

export async function divergedKeep(ids: string[], options: DecisionOptions): Promise<void> {
  requireChoice('keep', ids, options);
  const config = await load(options);
  const { keepLost } = await import('../pipeline/diverged.ts');
  const kept = await keepLost(config, { ...options, ids }, options.reason);
  if (options.json) printJson({ kept });
  else
    print(`the effect of ${countOf(kept.length, 'correction')} is kept, though the log does not have them`);
}

function requireChoice(command: string, ids: readonly string[], { all }: DecisionOptions): void {
  if ((all === true) !== ids.length > 0) return;
  throw new EmendError('bad_arguments', `diverged ${command} takes either the _ids of rows, or --all`, {
    remedy: 'emend diverged list shows their _ids.',
  });
}
