import { readConfig } from '../config/config.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { countOf } from '../observe/count-of.ts';
import { print, printJson, showProgress } from './print.ts';
import { describeAnswer } from './describe-answer.ts';
import { describeExplanation } from './describe-explanation.ts';
import { describeImport } from './describe-import.ts';
import { describeMigration, describePlan } from './describe-migration.ts';
import { describeStatus } from './describe-status.ts';
import { describeWait } from './describe-wait.ts';
import { serve } from './serve.ts';

export interface CommonOptions {
  readonly config?: string;
  readonly json?: boolean;
}

// the stages are loaded by the command that needs them: `emend --help` and `emend wait` should not wait for BullMQ

export async function migrate(options: CommonOptions & { print?: boolean; adopt?: string[] }): Promise<void> {
  const config = await load(options);
  const { migrate: run } = await import('../pipeline/migrate.ts');
  const migration = await run({ config, print: options.print === true, adopt: options.adopt });
  if (options.json) printJson(migration);
  else print(options.print ? describePlan(migration) : describeMigration(migration));
}

export async function start(options: CommonOptions): Promise<void> {
  await serve(await load(options), ['reader', 'worker']);
}

export async function reader(options: CommonOptions & { share?: number }): Promise<void> {
  await serve(await load(options), ['reader'], { share: options.share });
}

export async function worker(options: CommonOptions): Promise<void> {
  await serve(await load(options), ['worker']);
}

/** Exit code 1 when something is not well, so that a monitor needs to read nothing. */
export async function status(options: CommonOptions): Promise<void> {
  const config = await load(options);
  const { readStatus } = await import('../pipeline/status.ts');
  const report = await readStatus(config);
  if (options.json) printJson(report);
  else print(describeStatus(report));
  if (report.problems.length > 0) process.exitCode = 1;
}

export async function wait(options: CommonOptions & { timeout?: number; xid?: string }): Promise<void> {
  const config = await load(options);
  const { waitUntilMerged } = await import('../pipeline/wait.ts');
  const waited = await waitUntilMerged({
    config,
    xid: options.xid,
    timeoutMs: options.timeout === undefined ? undefined : options.timeout * 1000,
  });
  if (options.json) printJson(waited);
  else {
    print(describeWait(waited));
  }
}

export async function sweep(options: CommonOptions & { all?: boolean; timeout?: number }): Promise<void> {
  const config = await load(options);
  const { sweepNow } = await import('../pipeline/sweep-now.ts');
  const swept = await sweepNow({
    config,
    all: options.all,
    timeoutMs: options.timeout === undefined ? undefined : options.timeout * 1000,
  });
  if (options.json) printJson(swept);
  else {
    const { compared, enqueued, isComplete, tookMs } = swept;
    const found =
      enqueued === 0
        ? 'nothing was missing'
        : `${countOf(enqueued, 'row was missing and is', 'rows were missing and are')} on the queue again`;
    const rest = isComplete ? '' : '; more are missing, and follow when workers have merged these';
    print(`${countOf(compared, 'row')} compared, ${found}${rest} (${tookMs} ms)`);
    for (const name of swept.leftOut)
      print(
        `! targets.${name}: was left out: the worker that sweeps does not know it\n  Restart reader and workers with this configuration.`,
      );
  }
  if (swept.leftOut.length > 0) process.exitCode = 1;
}

interface AtOptions extends CommonOptions {
  readonly key?: string[];
  readonly validAt?: string;
  readonly knownAt?: string;
  readonly limit: number;
}

export async function at(target: string, options: AtOptions): Promise<void> {
  const config = await load(options);
  const { askAt } = await import('../pipeline/at.ts');
  const { key = [], validAt, knownAt, limit } = options;
  const answer = await askAt(config, { target, key, validAt, knownAt, limit });
  if (options.json) printJson(answer);
  else print(describeAnswer(answer));
}

interface ExplainOptions extends CommonOptions {
  readonly key: string[];
  readonly validAt?: string;
  readonly knownAt?: string;
  readonly limit: number;
}

export async function explain(target: string, options: ExplainOptions): Promise<void> {
  const config = await load(options);
  const { explain: ask } = await import('../pipeline/explain.ts');
  const { key, validAt, knownAt, limit } = options;
  const explanation = await ask(config, { target, key, validAt, knownAt, limit });
  if (options.json) printJson(explanation);
  else print(describeExplanation(target, explanation));
}

export async function undo(
  target: string,
  id: string,
  options: CommonOptions & { reason: string },
): Promise<void> {
  const config = await load(options);
  const { undo: run } = await import('../pipeline/undo.ts');
  const undone = await run({ config, target, id, reason: options.reason });
  if (options.json) printJson(undone);
  else if (undone.toldAt === null)
    print(`correction ${id} of ${target} had been taken back before; nothing has changed`);
  else print(`correction ${id} of ${target} is taken back; it is not believed from ${undone.toldAt} on`);
}

interface ImportOptions extends CommonOptions {
  readonly knownAt: string;
  readonly ignore?: string[];
  readonly openStart?: boolean;
  readonly name?: string;
}

export async function importHistory(target: string, file: string, options: ImportOptions): Promise<void> {
  const config = await load(options);
  const { importFile } = await import('../pipeline/import-file.ts');
  const { knownAt, ignore, openStart, name } = options;
  const progress = showProgress(target);
  const imported = await importFile(config, target, file, {
    knownAt,
    ...(ignore ? { ignore } : {}),
    openStart: openStart === true,
    ...(name === undefined ? {} : { name }),
    onProgress: ({ written, merged }) =>
      progress.show(
        merged > 0 ? `${countOf(merged, 'row')} merged` : `${countOf(written, 'row')} in the log`,
      ),
  });
  progress.end();
  if (options.json) printJson(imported);
  else print(describeImport(target, imported));
}

export function load(options: CommonOptions): Promise<ResolvedConfig> {
  return readConfig({ file: options.config ?? null, cwd: process.cwd(), env: process.env });
}
