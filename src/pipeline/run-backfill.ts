/**
 * Runs a backfill file: opens, loads, seals, waits for the checks, and promotes where that is asked for.
 *
 * Promise: killed anywhere and run again, it goes on where it was; a file that has been run changes nothing. One that was
 * changed under its name, or whose rows were, goes on only while the backfill is open, and only where all that was loaded is
 * also in the changed file, row for row; else it is refused.
 * If it breaks: the rows of two versions of a file stand under one name, and nobody can tell which.
 */
import { resolve } from 'node:path';
import { readBackfillFile } from '../backfill/backfill-file.ts';
import type { BackfillFile } from '../backfill/backfill-file.ts';
import type { RowSource } from '../backfill/define-backfill.ts';
import { lookAtRawInput, rawInputOf } from '../backfill/raw-input.ts';
import { rowsOf } from '../backfill/rows-of-function.ts';
import { readSamples } from '../backfill/read-samples.ts';
import type { SampledTarget } from '../backfill/read-samples.ts';
import type { Loaded } from '../backfill/load.ts';
import type { BackfillState } from '../backfill/state.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { forgetBackfill } from '../log/backfill.ts';
import type { BackfillOpening } from '../log/backfill.ts';
import { diffBackfill } from './backfill-diff.ts';
import type { DiffSummary } from './backfill-diff.ts';
import { showBackfill } from './backfill-report.ts';
import type { BackfillCheck } from './backfill-report.ts';
import { promote, seal } from './backfill-requests.ts';
import type { CarriedOut, WaitOptions } from './backfill-requests.ts';
import { withServers } from './connections.ts';
import { inputName, readBefore, refuseOther, refuseOtherRows } from './file-before.ts';
import type { Before } from './file-before.ts';
import { findTarget } from './find-target.ts';
import { loadBackfill } from './load-backfill.ts';
import type { LoadInput, LoadOptions } from './load-backfill.ts';
import { gitCommit } from './logic-version.ts';
import { openStatedBackfill, restateStatedBackfill } from './open-backfill.ts';

export interface RunOptions extends WaitOptions {
  /** Also makes it visible, when no check stands in the way. */
  readonly promote?: boolean | undefined;
  /** Why it is promoted; kept for ever. */
  readonly reason?: string | undefined;
  /** Where the file states none; default: the git commit of its folder. */
  readonly logicVersion?: string | undefined;
  readonly onLoad?: LoadOptions['onProgress'];
}

export type RunStep = 'opened' | 'loaded' | 'sealed' | 'checked' | 'promoted';

export interface BackfillRun extends CarriedOut {
  /** What this run has done, in order; empty: all of it had been done before. */
  readonly done: readonly RunStep[];
  readonly loaded: readonly Loaded[];
  /** Files of rows that are not there any more, as the file names them: what was loaded of them stays. */
  readonly rowsGone: readonly string[];
  readonly checks: readonly BackfillCheck[];
  readonly diff: readonly DiffSummary[];
  /** Where it comes from, as it was stated, with the checksums of its raw input. */
  readonly origin: unknown;
}

/**
 * @throws EmendError `config_invalid` or `bad_arguments` for a file that cannot be run, `backfill_refused` for one that was
 *   changed since it was opened, or whose rows were since they were loaded; what loading, sealing and promoting throw
 */
export async function runBackfill(
  config: ResolvedConfig,
  path: string,
  options: RunOptions = {},
): Promise<BackfillRun> {
  const file = await readBackfillFile(path);
  const targets = file.targets.map((name) => sampled(config, name));
  const before = await readBefore(config, file.name);
  if (before) await refuseOther(config, file, before);
  if (file.isStale) refuseStale(file);
  const rowsGone = before?.isClosed ? await refuseOtherRows(config, file) : [];
  const done: RunStep[] = [];
  const loaded: Loaded[] = [];
  const run = { done, loaded, rowsGone };
  if (before?.isEnded) return report(config, file, ended(before.state, options), run);

  const { timeoutMs, onProgress, onBlocked, reason } = options;
  const waiting = { timeoutMs, onProgress, onBlocked };
  const opening = before?.isClosed ? null : await readOpening(file, targets, before, options);
  if (opening && !before && (await openStatedBackfill(config, opening, waiting)).opened) done.push('opened');
  const fill = async (): Promise<CarriedOut> => {
    for (const [place, part] of opening ? file.rows.entries() : [])
      loaded.push(await load(config, file, part, place, options));
    // now that all that is loaded is known to be of this file
    if (opening && before) await restateStatedBackfill(config, opening, waiting);
    if (loaded.some(({ written }) => written > 0)) done.push('loaded');
    return seal(config, file.name, waiting);
  };
  const sealed = await fill().catch((error: unknown) => forget(config, file.name, error));
  if (!before?.isClosed) done.push('sealed');
  if (sealed.state === 'checked' && before?.state !== 'checked') done.push('checked');
  const found = await report(config, file, sealed, run);
  if (found.state !== 'checked' || isBlocked(file, found.checks)) return found;
  if (!options.promote) return { ...found, problem: null };
  const gone = await notReplayable(file, found.origin);
  if (gone !== undefined) return { ...found, problem: gone };

  // of what it accepts, the checks that there are: one without samples has no samples_differing
  const accept = Object.fromEntries(
    Object.entries(file.accept).filter(([name]) => found.checks.some((each) => each.name === name)),
  );
  const asked = { accept, ...(reason === undefined ? {} : { reason }) };
  const promoted = await promote(config, file.name, { ...asked, ...waiting });
  if (promoted.state === 'promoted') done.push('promoted');
  return report(config, file, promoted, run);
}

/** Nothing has been loaded yet: with the mistake mended, the file may keep its name. Where rows have been, they stay. */
async function forget(config: ResolvedConfig, name: string, error: unknown): Promise<never> {
  await withServers(
    config,
    { role: 'backfill', max: 1 },
    ({ source }) => withClient(source, (client) => forgetBackfill(client, name)),
    // what went wrong first is told: it may be the reason why this goes wrong too
  ).catch(() => undefined);
  throw error;
}

/** There is nothing to do; promoting what was reverted or abandoned cannot be done. */
function ended(state: BackfillState, { promote: isWanted }: RunOptions): Omit<CarriedOut, 'backfill'> {
  const problem = `it is ${state}, which is final: give the file another name to run it again`;
  return {
    state,
    problem: isWanted && state !== 'promoted' ? problem : null,
    waitsFor: null,
    window: [],
    byOther: null,
  };
}

/** Whether the raw input, which was there when it was opened, is there as it was: what cannot be made again is not made visible. */
async function notReplayable(
  { name, folder, origin, accept }: BackfillFile,
  stated: unknown,
): Promise<string | undefined> {
  if (accept['raw_input'] !== undefined) return undefined;
  const before = new Map(rawInputOf(stated).map(({ file, checksum }) => [file, checksum]));
  const now = await lookAtRawInput(folder, origin.files);
  const changed = now.filter(({ file, checksum }) => before.get(file) !== checksum).map(({ file }) => file);
  if (changed.length === 0) return undefined;
  return `it is not promoted: the raw input is not what it was when it was opened, and could not be replayed: ${changed.join(', ')}; put it back, or promote it all the same, on record: emend backfill promote ${name} --accept raw_input --reason …`;
}

/** By a check that failed, and is not accepted by the file. */
function isBlocked({ accept }: BackfillFile, checks: readonly BackfillCheck[]): boolean {
  return checks.some(
    ({ name, verdict, accepted }) => verdict === 'fail' && accepted === null && accept[name] === undefined,
  );
}

function sampled(config: ResolvedConfig, name: string): SampledTarget {
  const { kind, key } = findTarget(config.targets, name);
  return { name, kind, key };
}

function refuseStale({ fileName }: BackfillFile): never {
  throw new EmendError(
    'bad_arguments',
    `${fileName} has been changed since this process loaded it; nothing has been done`,
    {
      remedy: 'Run it in a new process, such as emend backfill run.',
    },
  );
}

async function readOpening(
  file: BackfillFile,
  targets: readonly SampledTarget[],
  before: Before | null,
  options: RunOptions,
): Promise<BackfillOpening> {
  const { name, folder, fileName, checksum, boundary, reason, sqlChecks: sql, thresholds } = file;
  const { input, files } = file.origin;
  const samples = await readSamples(file, targets);
  // opened before: the same file, which other commits may have passed since
  const isSame = before?.origin['checksum'] === checksum;
  const logicVersion =
    (isSame ? before.logicVersion : null) ??
    file.logicVersion ??
    options.logicVersion ??
    (await gitCommit(folder));
  const rawInput = await lookAtRawInput(folder, files);
  return {
    name,
    targets: file.targets,
    reason,
    logicVersion,
    boundary,
    origin: {
      file: fileName,
      checksum,
      ...(input === undefined ? {} : { input }),
      ...(rawInput.length === 0 ? {} : { raw_input: rawInput }),
    },
    checks: withoutEmpty({ sql, samples, thresholds }),
  };
}

/** A writer may open a backfill without checks; one with some has to be the owner. */
function withoutEmpty(checks: Readonly<Record<string, object>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(checks).filter(([, part]) => Object.keys(part).length > 0));
}

function load(
  config: ResolvedConfig,
  { name, folder, fileName }: BackfillFile,
  { target, rows }: BackfillFile['rows'][number],
  place: number,
  { onLoad, onBlocked }: RunOptions,
): Promise<Loaded> {
  const more =
    'file' in rows
      ? {
          ignore: rows.ignore,
          openStart: rows.openStart,
          skipBad: rows.skipBad && resolve(folder, rows.skipBad),
        }
      : {};
  return loadBackfill(config, inputOf(rows, folder, fileName), {
    backfill: name,
    target,
    source: inputName(rows, place),
    remedy: 'file' in rows ? mendFile : mendProgram,
    onProgress: onLoad,
    onBlocked,
    ...more,
  }).catch((error: unknown) => {
    if (!isEmendError(error) || error.code !== 'backfill_refused') throw error;
    throw new EmendError('backfill_refused', error.message, {
      remedy: `What was loaded stays as it was: put it back into ${fileName} and run it again; or abandon this one (emend backfill abandon ${name} --reason …), and give the changed file a name of its own.`,
      cause: error,
    });
  });
}

function inputOf(rows: RowSource, folder: string, fileName: string): LoadInput {
  if (typeof rows === 'function') return { rows: rowsOf(rows, fileName) };
  return 'sql' in rows ? rows : { file: resolve(folder, rows.file), format: rows.format };
}

const mendFile = 'Mend the line and run again: what was loaded before it stays, and is not loaded twice.';

const mendProgram =
  'Mend what makes the rows and run again: it goes on here, as long as what was loaded before comes out the same.';

async function report(
  config: ResolvedConfig,
  { name }: BackfillFile,
  { state, problem, waitsFor, window, byOther }: Omit<CarriedOut, 'backfill'>,
  { done, loaded, rowsGone }: Pick<BackfillRun, 'done' | 'loaded' | 'rowsGone'>,
): Promise<BackfillRun> {
  const { checks, origin } = await showBackfill(config, name);
  const hasDiff = state === 'checked' || state === 'promoted' || state === 'reverted';
  const diff = hasDiff ? (await diffBackfill(config, name, { limit: 0 })).summary : [];
  return {
    backfill: name,
    state,
    problem,
    waitsFor,
    window,
    byOther,
    done: [...done],
    loaded,
    rowsGone,
    checks,
    diff,
    origin,
  };
}
