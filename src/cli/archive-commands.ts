import type { Command } from 'commander';
import { EmendError } from '../errors.ts';
import { collect, positiveInteger } from './arguments.ts';
import { load } from './commands.ts';
import type { CommonOptions } from './commands.ts';
import { describeArchived, describeRestored, describeSources } from './describe-archive.ts';
import { print, printJson, showProgress } from './print.ts';

type Common = (command: Command, description: string) => Command;

/** `emend sources`, and the commands under `emend archive`. */
export function addArchiveCommands(program: Command, common: Common): void {
  common(program.command('sources'), 'how far back each log can be replayed, and what would end that')
    .option('--check', 'read every archived file, and compare it with its digest')
    .option(
      '--archive <folder>',
      'archived files are in this folder, or beside this manifest, now (repeat)',
      collect,
    )
    .option(
      '--inputs <folder>',
      'where raw input of backfills is looked for (repeat; default: here, and backfills)',
      collect,
    )
    .action(sources);
  const group = program
    .command('archive')
    .description('move rows that are older than a date from the logs to files');
  const move = common(group.command('move', { isDefault: true }), 'what emend archive <target> does')
    .argument('[target]', 'its name in the configuration')
    .option('--all', 'all targets')
    .requiredOption('--before <date>', 'rows that were recorded before this time, midnight in UTC for a date')
    .requiredOption('--to <folder>', 'each target has a folder of its own in it')
    .option('--rows-per-file <rows>', 'rows of one file', positiveInteger, 100_000)
    .option('--dry-run', 'only say how many rows would be moved')
    .action(archive);
  // help of a group does not show what its default takes
  group.addHelpText(
    'after',
    () => `\nemend archive <target> is emend archive move:\n\n${move.helpInformation()}`,
  );
  common(group.command('restore'), 'put the rows of archived files back into the logs, as they were')
    .argument('<folder...>', 'a folder of archived files, or the manifest.json beside them')
    .action(restore);
}

interface ArchiveOptions extends CommonOptions {
  readonly all?: boolean;
  readonly before: string;
  readonly to: string;
  readonly rowsPerFile: number;
  readonly dryRun?: boolean;
}

async function archive(target: string | undefined, options: ArchiveOptions): Promise<void> {
  if ((options.all === true) === (target !== undefined)) {
    throw new EmendError('bad_arguments', 'archive takes either a target, or --all', {
      remedy: 'Write emend archive <target> --before <date> --to <folder>.',
    });
  }
  const config = await load(options);
  const { archive: run } = await import('../pipeline/archive.ts');
  const progress = showProgress('archive');
  const archived = await run(config, {
    target: target ?? null,
    before: options.before,
    to: options.to,
    dryRun: options.dryRun === true,
    rowsPerFile: options.rowsPerFile,
    onProgress: (name, rows) => progress.show(`${name}, ${rows} rows`),
  });
  progress.end();
  if (options.json) printJson(archived);
  else print(archived.map((each) => describeArchived(each, options.dryRun === true)).join('\n'));
}

async function restore(given: string[], options: CommonOptions): Promise<void> {
  const config = await load(options);
  const { restoreArchive } = await import('../pipeline/restore-archive.ts');
  const restored = await restoreArchive(config, given);
  if (options.json) printJson(restored);
  else print(describeRestored(restored));
}

/** Exit code 1 when something cannot be replayed, or will not be for long. */
async function sources(
  options: CommonOptions & { check?: boolean; archive?: string[]; inputs?: string[] },
): Promise<void> {
  const config = await load(options);
  const { readSources } = await import('../pipeline/sources.ts');
  const found = await readSources(config, {
    check: options.check === true,
    archives: options.archive ?? [],
    inputs: options.inputs ?? [],
  });
  if (options.json) printJson(found);
  else print(describeSources(found));
  if (found.problems.length > 0) process.exitCode = 1;
}
