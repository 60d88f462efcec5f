import { EmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import type { CarriedOut } from '../pipeline/backfill-requests.ts';
import { load as loadConfig } from './commands.ts';
import type { CommonOptions } from './commands.ts';
import {
  describeBackfill,
  describeBackfills,
  describeChecks,
  describeOther,
  describeRun,
  describeWait,
} from './describe-backfill.ts';
import { describeDiff } from './describe-diff.ts';
import { print, printJson, showProgress } from './print.ts';
import { createProgressBar } from './progress-bar.ts';

interface OpenOptions extends CommonOptions {
  readonly target: readonly string[];
  readonly reason: string;
  readonly from?: string;
  readonly to?: string;
  readonly where?: string;
  readonly logicVersion?: string;
  readonly origin?: string;
}

export async function open(name: string, options: OpenOptions): Promise<void> {
  const config = await loadConfig(options);
  const { gitCommit } = await import('../pipeline/logic-version.ts');
  const { openStatedBackfill } = await import('../pipeline/open-backfill.ts');
  const { target: targets, reason, from, to, where, origin } = options;
  const boundary = { ...(from && { from }), ...(to && { to }), ...(where && { where }) };
  const isBounded = Object.keys(boundary).length > 0;
  const opened = await openStatedBackfill(config, {
    name,
    targets,
    reason,
    logicVersion: options.logicVersion ?? (await gitCommit(process.cwd())),
    boundary: isBounded ? Object.fromEntries(targets.map((target) => [target, boundary])) : {},
    origin: origin === undefined ? {} : { input: origin },
  });
  if (options.json) printJson(opened);
  else if (opened.opened) print(`backfill ${name} is open; add rows with emend backfill load ${name} <file>`);
  else print(`backfill ${name} had been opened before, the same; nothing has changed`);
}

interface LoadOptions extends CommonOptions {
  readonly sql?: string;
  readonly target?: string;
  readonly source?: string;
  readonly format?: 'csv' | 'ndjson';
  readonly ignore?: readonly string[];
  readonly openStart?: boolean;
  readonly skipBad?: string;
}

export async function load(name: string, file: string | undefined, options: LoadOptions): Promise<void> {
  const { sql, target, source, format, ignore, openStart, skipBad } = options;
  if ((file === undefined) === (sql === undefined)) {
    throw new EmendError('bad_arguments', 'backfill load takes either a file or --sql', {
      remedy: 'Give a file (- is stdin), or a select that runs in the source.',
    });
  }
  const config = await loadConfig(options);
  const { loadBackfill } = await import('../pipeline/load-backfill.ts');
  const bar = createProgressBar(name, 'rows');
  const progress = showProgress(name);
  const loaded = await loadBackfill(config, file === undefined ? { sql: sql! } : { file, format }, {
    backfill: name,
    target,
    source,
    ignore,
    openStart,
    skipBad,
    onProgress: ({ read, written, share }) => bar.show({ done: read, doneNow: written, share }),
    onBlocked: (text) => progress.say(text),
  }).finally(() => bar.end());
  if (options.json) printJson(loaded);
  else {
    const { written, read, skipped, input } = loaded;
    const before = read - skipped - written;
    const rest = [
      before > 0 ? `${countOf(before, 'row')} of ${input} had been loaded before` : '',
      skipped > 0
        ? `${countOf(skipped, 'line was', 'lines were')} left out${skipBad ? `, see ${skipBad}` : ''}`
        : '',
    ].filter((part) => part !== '');
    print([`${countOf(written, 'row is', 'rows are')} loaded into backfill ${name}`, ...rest].join('; '));
  }
}

interface RunOptions extends CommonOptions {
  readonly promote?: boolean;
  readonly reason?: string;
  readonly logicVersion?: string;
  readonly timeout: number;
}

/** Exit code 1 when it did not come as far as it was asked to. */
export async function run(file: string, options: RunOptions): Promise<void> {
  const config = await loadConfig(options);
  const { runBackfill } = await import('../pipeline/run-backfill.ts');
  const bar = createProgressBar(file, 'rows');
  const progress = showProgress(file);
  const ran = await runBackfill(config, file, {
    promote: options.promote === true,
    reason: options.reason,
    logicVersion: options.logicVersion,
    timeoutMs: options.timeout * 1_000,
    onLoad: ({ read, written, share }) => bar.show({ done: read, doneNow: written, share }),
    onProgress: (text) => progress.show(text),
    onBlocked: (text) => progress.say(text),
  }).finally(() => progress.end());
  if (options.json) printJson(ran);
  else print(describeRun(ran));
  if (ran.problem !== null || ran.waitsFor !== null) process.exitCode = 1;
}

interface AskOptions extends CommonOptions {
  readonly reason?: string;
  readonly timeout: number;
}

export async function seal(name: string, options: AskOptions): Promise<void> {
  const { seal: run } = await import('../pipeline/backfill-requests.ts');
  await carryOut(name, options, (config, asking) => run(config, name, asking));
}

export async function promote(
  name: string,
  options: AskOptions & { accept?: string[]; at?: string; ignoreWindow?: boolean },
): Promise<void> {
  const { accept = [], reason, at, ignoreWindow = false } = options;
  if (accept.length > 0 && reason === undefined) {
    throw new EmendError('bad_arguments', 'a check is not accepted without a reason', {
      remedy: 'Say with --reason why it may fail; it is kept for ever.',
    });
  }
  const { promote: run } = await import('../pipeline/backfill-requests.ts');
  const promotion = {
    accept: Object.fromEntries(accept.map((check) => [check, reason!])),
    ignoreWindow,
    ...(at === undefined ? {} : { at }),
  };
  await carryOut(name, options, (config, asking) => run(config, name, { ...asking, ...promotion }));
}

export async function revert(name: string, options: AskOptions & { reason: string }): Promise<void> {
  const { revert: run } = await import('../pipeline/backfill-requests.ts');
  await carryOut(name, options, (config, asking) => run(config, name, { ...asking, reason: options.reason }));
}

export async function abandon(name: string, options: AskOptions & { reason: string }): Promise<void> {
  const { abandon: run } = await import('../pipeline/backfill-requests.ts');
  await carryOut(name, options, (config, asking) => run(config, name, { ...asking, reason: options.reason }));
}

interface Asked {
  readonly reason?: string;
  readonly timeoutMs: number;
  readonly onProgress: (text: string) => void;
  readonly onBlocked: (text: string) => void;
}

/** Exit code 1 when the store did not do what was asked for (yet: it may wait for its time), or a check stands in the way of what comes next. */
async function carryOut(
  name: string,
  options: AskOptions,
  ask: (config: Awaited<ReturnType<typeof loadConfig>>, asked: Asked) => Promise<CarriedOut>,
): Promise<void> {
  const config = await loadConfig(options);
  const progress = showProgress(name);
  const done = await ask(config, {
    ...(options.reason === undefined ? {} : { reason: options.reason }),
    timeoutMs: options.timeout * 1_000,
    onProgress: (text) => progress.show(text),
    onBlocked: (text) => progress.say(text),
  }).finally(() => progress.end());
  if (options.json) printJson(done);
  else {
    print(`backfill ${name} is ${done.state}`);
    if (done.byOther !== null) print(describeOther(done.state, done.byOther));
    if (done.waitsFor !== null) print(`it ${describeWait({ until: done.waitsFor, closedBy: done.window })}`);
    if (done.problem !== null) print(`${done.problem}\nSee emend backfill show ${name}.`);
  }
  if (done.problem !== null || done.waitsFor !== null) process.exitCode = 1;
}

export async function list(options: CommonOptions): Promise<void> {
  const config = await loadConfig(options);
  const { listBackfills } = await import('../pipeline/backfill-report.ts');
  const backfills = await listBackfills(config);
  if (options.json) printJson(backfills);
  else print(describeBackfills(backfills));
}

export async function show(name: string, options: CommonOptions): Promise<void> {
  const config = await loadConfig(options);
  const { showBackfill } = await import('../pipeline/backfill-report.ts');
  const report = await showBackfill(config, name);
  if (options.json) printJson(report);
  else print(describeBackfill(report));
}

/** Exit code 1 when a check fails that is not accepted, or none has been made. */
export async function check(name: string, options: CommonOptions): Promise<void> {
  const config = await loadConfig(options);
  const { showBackfill } = await import('../pipeline/backfill-report.ts');
  const { state, checks, problem } = await showBackfill(config, name);
  if (options.json) printJson({ backfill: name, state, problem, checks });
  else print(describeChecks(name, state, checks));
  const isBlocked = checks.some(({ verdict, accepted }) => verdict === 'fail' && accepted === null);
  if (isBlocked || checks.length === 0) process.exitCode = 1;
}

export async function diff(
  name: string,
  options: CommonOptions & { limit: number; export?: string; window?: string; timeZone: string },
): Promise<void> {
  const { limit, export: exportTo, window, timeZone } = options;
  const config = await loadConfig(options);
  const { diffBackfill } = await import('../pipeline/backfill-diff.ts');
  const windows = window === undefined ? undefined : { window, timeZone };
  const found = await diffBackfill(config, name, { limit, exportTo, windows });
  if (options.json) printJson(found);
  else print(describeDiff(found, exportTo));
}
