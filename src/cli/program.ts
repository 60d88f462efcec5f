import { Command, CommanderError, Option } from 'commander';
import { EmendError } from '../errors.ts';
import { emendVersion } from '../observe/version.ts';
import {
  collect,
  correctionId,
  correctionIds,
  positiveInteger,
  seconds,
  transactionId,
} from './arguments.ts';
import { addArchiveCommands } from './archive-commands.ts';
import { addBackfillCommands } from './backfill-program.ts';
import * as commands from './commands.ts';
import * as dead from './dead-commands.ts';
import * as diverged from './diverged-commands.ts';
import { rebuild, rebuilds } from './rebuild-command.ts';
import { reportError } from './report-error.ts';
import { verify } from './verify-command.ts';

/** Runs one command line and returns its exit code. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  const asJson = argv.includes('--json');
  try {
    await createProgram().parseAsync(argv);
    // a command that ran to its end may still have found that not all is well
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    return reportError(error instanceof CommanderError ? badArguments(error) : error, asJson);
  }
}

function createProgram(): Command {
  const program = new Command('emend')
    .description('Corrects history in an analytics Postgres, safely and continuously.')
    .version(emendVersion())
    // errors of the command line are reported like all others
    .exitOverride()
    .configureOutput({ outputError: () => {} });

  common(program.command('migrate'), 'bring both databases to what the configuration says')
    .option('--print', 'show the statements and change nothing')
    .option(
      '--adopt <target>',
      'take the rows of its table in as corrections, older than all that come',
      collect,
    )
    .action(commands.migrate);
  common(program.command('start'), 'run reader and worker in one process').action(commands.start);
  common(program.command('reader'), 'stream the logs to the queue')
    .option(
      '--share <number>',
      'only this share, from 1 to capture.readers; all that no other reader has if left out',
      positiveInteger,
    )
    .action(commands.reader);
  common(program.command('worker'), 'merge what is on the queue into the store').action(commands.worker);
  common(program.command('status'), 'how everything is doing, and what to do where it is not well').action(
    commands.status,
  );
  common(program.command('wait'), 'wait until everything committed before now is merged or set aside')
    .option('--timeout <seconds>', 'give up after this time, with exit code 1', seconds)
    .option(
      '--xid <id>',
      'wait for one transaction of the source: select pg_current_xact_id()',
      transactionId,
    )
    .action(commands.wait);
  common(program.command('sweep'), 'compare log and store now, and put on the queue again what is missing')
    .option('--all', 'from the beginning of the logs, also what is known to be in the store')
    .option('--timeout <seconds>', 'give up after this time, with exit code 1', seconds)
    .action(commands.sweep);
  common(program.command('at'), 'what is believed of a target at an instant')
    .argument('<target>', 'its name in the configuration')
    .option(
      '--key <column=value>',
      'once a key column; the value alone where the key has one column',
      collect,
    )
    .option('--valid-at <instant>', 'when it is true in the world; the present if left out')
    .option('--known-at <time>', 'as was believed then; as is believed now if left out')
    .option('--limit <rows>', 'rows to show at most', positiveInteger, 1_000)
    .action(commands.at);
  common(program.command('explain'), 'every correction behind an answer: who, when, why')
    .argument('<target>', 'its name in the configuration')
    .requiredOption(
      '--key <column=value>',
      'once a key column; the value alone where the key has one column',
      collect,
    )
    .option('--valid-at <instant>', 'only corrections that cover this instant')
    .option('--known-at <time>', 'as was known then')
    .option('--limit <rows>', 'corrections to show at most, the winner first', positiveInteger, 100)
    .action(commands.explain);
  common(program.command('undo'), 'take one correction back; later ones stay, history shows all')
    .argument('<target>', 'its name in the configuration')
    .argument('<_id>', 'the correction, as explain shows it', correctionId)
    .requiredOption('--reason <text>', 'why; kept for ever')
    .action(commands.undo);
  common(program.command('import'), 'take in history with the times at which it was known')
    .argument('<target>', 'its name in the configuration; it has no live corrections yet')
    .argument('<file>', 'NDJSON or CSV, in the order of knowing; .gz is unpacked')
    .requiredOption('--known-at <field>', 'the field that says since when a correction was known')
    .option('--ignore <field>', 'a field that is not for emend (repeat)', collect)
    .option('--open-start', 'a start that is null is open, instead of refused')
    .option('--name <name>', 'the name of the import; default: from the target and the file')
    .action(commands.importHistory);
  common(program.command('verify'), 'compare targets and their history with the fold of their logs')
    .argument('[target]', 'its name in the configuration; all of them if left out')
    .option('--key <column=value>', 'one key only: once a key column', collect)
    .option(
      '--archive <folder>',
      'archived files are in this folder, or beside this manifest, now (repeat)',
      collect,
    )
    .option('--repair', 'make what differs what the log says, with the times of belief that it had')
    .option('--limit <rows>', 'differences to list at most', positiveInteger, 100)
    .action(verify);
  addArchiveCommands(program, common);
  common(program.command('rebuild'), 'fold a target whole from its log, compare, and swap in what differs')
    .argument('<target>', 'its name in the configuration')
    .option('--swap', 'exchange the rows that differ, all at once; without it they are only told')
    .option('--reason <text>', 'why; kept for ever')
    .option('--into <table>', 'write the target to this new table (schema.table) instead')
    .option('--known-at <time>', 'with --into: as was known then; the settled present if left out')
    .option(
      '--archive <folder>',
      'archived files are in this folder, or beside this manifest, now (repeat)',
      collect,
    )
    .addOption(new Option('--from <folder>', 'the same as --archive').argParser(collect).hideHelp())
    .option('--limit <rows>', 'differences to list at most', positiveInteger, 100)
    .action(rebuild);
  common(program.command('rebuilds'), 'what was rebuilt: who, when, why, from what, and what came of it')
    .option('--target <name>', 'only those of one target')
    .option('--limit <rows>', 'the latest so many', positiveInteger, 20)
    .action(rebuilds);
  addBackfillCommands(
    program.command('backfill').description('rewrite history: checked, all at once, and revertible'),
    common,
  );
  deadCommands(program.command('dead').description('log rows that were set aside, each with its reason'));
  divergedCommands(
    program
      .command('diverged')
      .description('where log and store have parted, since the source lost what was merged'),
  );
  return program;
}

function deadCommands(program: Command): void {
  const ofTarget = ['--target <name>', 'only those of one target'] as const;
  common(program.command('list'), 'which rows are set aside, and why')
    .option(...ofTarget)
    .option('--closed', 'also those that were merged or discarded since')
    .action(dead.deadList);
  common(program.command('retry'), 'merge them again, once what was in the way is mended')
    .argument('[_id...]', 'as dead list shows them', correctionIds)
    .option('--all', 'all that are set aside')
    .option(...ofTarget)
    .action(dead.deadRetry);
  common(program.command('discard'), 'give them up; their record is kept for ever')
    .argument('<_id...>', 'as dead list shows them', correctionIds)
    .requiredOption('--reason <text>', 'why; kept for ever')
    .action(dead.deadDiscard);
}

function divergedCommands(program: Command): void {
  const ids = ['[_id...]', 'as diverged list shows them', correctionIds] as const;
  const ofTarget = ['--target <name>', 'only those of one target'] as const;
  const reason = ['--reason <text>', 'why; kept for ever'] as const;
  common(program.command('list'), 'which rows only one side has, and what was decided')
    .option(...ofTarget)
    .option('--closed', 'also those about which it was decided')
    .option('--limit <rows>', 'rows to list at most', positiveInteger, 100)
    .action(diverged.divergedList);
  common(program.command('adopt'), 'write reused rows again, as new corrections under new numbers')
    .argument(...ids)
    .option('--all', 'all that are open')
    .option(...ofTarget)
    .requiredOption(...reason)
    .action(diverged.divergedAdopt);
  common(program.command('keep'), 'let the effect of lost rows stay, though the log does not have them')
    .argument(...ids)
    .option('--all', 'all that are open')
    .option(...ofTarget)
    .requiredOption(...reason)
    .action(diverged.divergedKeep);
}

function common(command: Command, description: string): Command {
  return command
    .description(description)
    .option('--config <file>', 'the configuration (default: emend.config.ts, .mts, .js or .mjs here)')
    .option('--json', 'results and errors as JSON');
}

function badArguments(error: CommanderError): EmendError {
  const message = error.message.replace(/^error: /, '');
  return new EmendError('bad_arguments', message === '(outputHelp)' ? 'no command was given' : message, {
    remedy: 'See emend --help, or emend <command> --help.',
  });
}
