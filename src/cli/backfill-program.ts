import type { Command } from 'commander';
import { Option } from 'commander';
import { collect, positiveInteger, seconds } from './arguments.ts';
import * as backfill from './backfill-commands.ts';

/** The commands under `emend backfill`. `common` gives each its description and the options that all commands take. */
export function addBackfillCommands(
  program: Command,
  common: (command: Command, description: string) => Command,
): void {
  const named = (name: string, description: string): Command =>
    common(program.command(name), description).argument('<name>', 'of the backfill');
  const timeout = ['--timeout <seconds>', 'how long to wait for the store', seconds, 600] as const;

  named('open', 'begin a backfill: what it may change, and why')
    .requiredOption('--target <target>', 'a target that its rows are of (repeat)', collect)
    .requiredOption('--reason <text>', 'why; kept for ever')
    .option('--from <instant>', 'its rows are true from here on, and not before')
    .option('--to <instant>', 'its rows are true up to here, and not from here on')
    .option('--where <sql>', 'a condition on key columns that holds for all of its rows')
    .option(
      '--logic-version <version>',
      'of the program that computed the rows; default: the git commit here',
    )
    .option('--origin <text>', 'where the raw input comes from')
    .action(backfill.open);
  named('load', 'add rows; killed and run again, it goes on where it was')
    .argument('[file]', 'NDJSON or CSV; .gz is unpacked; - is stdin')
    .option('--sql <select>', 'instead of a file: a select that runs in the source')
    .option('--target <target>', 'where the backfill has several')
    .option('--source <name>', 'names the input; default: the name of the file')
    .addOption(
      new Option('--format <format>', 'default: by the ending of the file; NDJSON for stdin').choices([
        'csv',
        'ndjson',
      ]),
    )
    .option('--ignore <field>', 'a field that is not for emend (repeat)', collect)
    .option('--open-start', 'a start that is null is open, instead of refused')
    .option(
      '--skip-bad <file>',
      'write bad lines with their reasons there, and go on; not into a file of something else',
    )
    .action(backfill.load);
  common(program.command('run'), 'run a backfill file: open, load, seal, check, and promote where asked')
    .argument('<file>', 'backfills/2026-11-29-reprice.ts or .sql; its name is that of the backfill')
    .option('--promote', 'make it visible, when no check stands in the way that the file does not accept')
    .option('--reason <text>', 'why it is promoted; kept for ever')
    .option('--logic-version <version>', 'where the file states none; default: the git commit of its folder')
    .option(...timeout)
    .action(backfill.run);
  named('seal', 'end the loading, and wait until all rows are staged and checked')
    .option('--reason <text>', 'kept for ever')
    .option(...timeout)
    .action(backfill.seal);
  named('check', 'what the checks found; exit code 1 when one stands in the way').action(backfill.check);
  named('diff', 'every answer that promoting changes; once promoted, against what was planned')
    .option('--limit <rows>', 'changes to list at most', positiveInteger, 20)
    .option(
      '--export <file>',
      'write all of them there, as NDJSON or CSV; not over a file that holds something',
    )
    .option('--window <width>', 'instead, the windows of valid time that they are in: 1h, 1d, 1 month')
    .option('--time-zone <zone>', 'in which the days of these windows are', 'UTC')
    .action(backfill.diff);
  named('promote', 'make it visible, all at once')
    .option('--accept <check>', 'a failing check that is accepted, for the reason given (repeat)', collect)
    .option('--reason <text>', 'why; kept for ever')
    .option('--at <time>', 'not before')
    .option('--ignore-window', 'also outside of the windows of the configuration, for the reason given')
    .option(...timeout)
    .action(backfill.promote);
  named('revert', 'make a promoted one as if it had never been; later corrections stay')
    .requiredOption('--reason <text>', 'why; kept for ever')
    .option(...timeout)
    .action(backfill.revert);
  named('abandon', 'throw one away that is not promoted')
    .requiredOption('--reason <text>', 'why; kept for ever')
    .option(...timeout)
    .action(backfill.abandon);
  common(program.command('list'), 'all of them, and how far each is').action(backfill.list);
  named('show', 'everything about one: who, when, why, counts and checks').action(backfill.show);
}
