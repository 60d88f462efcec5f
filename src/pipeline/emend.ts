import type { Imported } from '../backfill/import-history.ts';
import { resolveConfig } from '../config/config.ts';
import type { EmendConfig, TargetConfig } from '../config/define-config.ts';
import type { Asking } from '../log/backfill.ts';
import type { Executor } from '../log/executor.ts';
import type { Loaded } from '../backfill/load.ts';
import { createLogger } from '../observe/logger.ts';
import type { Explanation } from '../merge/explain-key.ts';
import type { Rebuild } from '../verify/rebuild.ts';
import type { AsKnown } from '../verify/write-as-known.ts';
import { askAt } from './at.ts';
import type { AtAnswer, AtQuestion } from './at.ts';
import { revert } from './backfill-requests.ts';
import type { CarriedOut, WaitOptions } from './backfill-requests.ts';
import { correctColumns } from './correct-columns.ts';
import type { ColumnCorrection } from './correct-columns.ts';
import { explain } from './explain.ts';
import type { ExplainQuestion } from './explain.ts';
import { importFile } from './import-file.ts';
import type { ImportOptions } from './import-file.ts';
import { loadBackfill } from './load-backfill.ts';
import type { LoadInput, LoadOptions } from './load-backfill.ts';
import { migrate } from './migrate.ts';
import type { Migration } from './migrate.ts';
import { startPipeline } from './pipeline.ts';
import type { Pipeline, Role } from './pipeline.ts';
import { rebuild, rebuildInto } from './rebuild.ts';
import type { RebuildIntoRequest, RebuildRequest } from './rebuild.ts';
import { runBackfill } from './run-backfill.ts';
import type { BackfillRun, RunOptions } from './run-backfill.ts';
import { readStatus } from './status.ts';
import type { Status } from './status-report.ts';
import { undo } from './undo.ts';
import type { Undone } from './undo.ts';
import { waitUntilMerged } from './wait.ts';
import type { Waited } from './wait.ts';

/** emend inside a program of one's own: what the command line does, as functions. */
export interface Emend {
  migrate(): Promise<Migration>;
  /** Runs the reader (of one share, or of all), the worker, or (default) both in this process until `stop`. */
  start(options?: {
    readonly roles?: readonly Role[];
    readonly share?: number;
    readonly logLevel?: string;
  }): Promise<Pipeline>;
  /** Returns when what was committed in the logs before the call is merged or set aside. */
  wait(options?: { readonly xid?: string; readonly timeoutMs?: number }): Promise<Waited>;
  status(): Promise<Status>;
  /** What is believed of a target at an instant, as believed at a time; 1,000 rows at most by default. */
  at(target: string, question?: Partial<Omit<AtQuestion, 'target'>>): Promise<AtAnswer>;
  /** Every correction behind an answer, the winner first; 100 at most by default. */
  explain(target: string, question: Omit<ExplainQuestion, 'target'>): Promise<Explanation>;
  /** Takes one correction back, by its `_id`; later ones stay, and history shows all. */
  undo(target: string, id: string, options: { readonly reason: string }): Promise<Undone>;
  /** Takes in history with the times at which it was known. */
  importHistory(target: string, file: string, options: ImportOptions): Promise<Imported>;
  /** Adds rows to an open backfill: of a file, a select in the source, or a program. Run again, it goes on where it was. */
  loadBackfill(input: LoadInput, options: LoadOptions): Promise<Loaded>;
  /** Runs a backfill file as far as its checks, or further with `promote`. */
  runBackfill(file: string, options?: RunOptions): Promise<BackfillRun>;
  /** Takes a promoted backfill back, and waits until the store has done it. */
  revertBackfill(name: string, options: Required<Asking> & WaitOptions): Promise<CarriedOut>;
  /** Folds a target whole from its log, compares, and with `swap` exchanges what differs, all at once. */
  rebuild(target: string, options?: Omit<RebuildRequest, 'onProgress'>): Promise<Rebuild>;
  /** Writes a target as it was known at a time into a new table. */
  rebuildInto(target: string, options: Omit<RebuildIntoRequest, 'onProgress'>): Promise<AsKnown>;
  /** "Only the price, keep the rest": whole-row corrections made from what is believed now, in the application's transaction. */
  correctColumns(tx: Executor, target: TargetConfig, correction: ColumnCorrection): Promise<string[]>;
}

/** @throws EmendError `config_invalid` with every problem of the configuration */
export function createEmend(input: EmendConfig, env: NodeJS.ProcessEnv = process.env): Emend {
  const config = resolveConfig(input, env);
  return {
    migrate: () => migrate({ config, print: false }),
    start: ({ roles, share, logLevel = 'warn' } = {}) =>
      startPipeline({
        config,
        roles: roles ?? ['reader', 'worker'],
        share,
        log: createLogger({ level: logLevel }),
      }),
    wait: (options = {}) => waitUntilMerged({ config, ...options }),
    status: () => readStatus(config),
    at: (target, { key = [], limit = 1_000, ...times } = {}) =>
      askAt(config, { target, key, limit, ...times }),
    explain: (target, question) => explain(config, { target, ...question }),
    undo: (target, id, { reason }) => undo({ config, target, id, reason }),
    importHistory: (target, file, options) => importFile(config, target, file, options),
    loadBackfill: (input, options) => loadBackfill(config, input, options),
    revertBackfill: (name, options) => revert(config, name, options),
    runBackfill: (file, options) => runBackfill(config, file, options),
    rebuild: (target, options) => rebuild(config, target, options),
    rebuildInto: (target, options) => rebuildInto(config, target, options),
    correctColumns: (tx, target, correction) => correctColumns(config, tx, target, correction),
  };
}
