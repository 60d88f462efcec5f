/** The public surface: named exports, nothing else. */
export { defineConfig, facts, timeline } from './config/define-config.ts';
export type {
  CaptureConfig,
  EmendConfig,
  FactsConfig,
  FactsOptions,
  LogConfig,
  MergeConfig,
  PromoteTimes,
  TableRef,
  TargetConfig,
  TimelineConfig,
  TimelineOptions,
  TimeSpan,
} from './config/define-config.ts';
export { EmendError } from './errors.ts';
export type { ErrorCode, Problem } from './errors.ts';
export { createEmend } from './pipeline/emend.ts';
export type { Emend } from './pipeline/emend.ts';
export type { ColumnCorrection } from './pipeline/correct-columns.ts';
export type { ImportOptions } from './pipeline/import-file.ts';
export type { LoadInput, LoadOptions } from './pipeline/load-backfill.ts';
export { defineBackfill } from './backfill/define-backfill.ts';
export type { BackfillDefinition, RowSource, StatedSample } from './backfill/define-backfill.ts';
export type { CarriedOut, WaitOptions } from './pipeline/backfill-requests.ts';
export type { RebuildIntoRequest, RebuildRequest } from './pipeline/rebuild.ts';
export type { BackfillRun, RunOptions } from './pipeline/run-backfill.ts';
export { correct, retract, withdraw } from './log/append.ts';
export type { AppendOptions } from './log/append.ts';
export {
  abandonBackfill,
  chunkBackfill,
  openBackfill,
  promoteBackfill,
  revertBackfill,
  sealBackfill,
} from './log/backfill.ts';
export type { Asking, BackfillOpening, Boundary, Chunk, Promotion } from './log/backfill.ts';
export { rekey } from './log/rekey.ts';
export type { KeyChange } from './log/rekey.ts';
export type { CorrectionRow, RetractionRow } from './log/correction-row.ts';
export type { Executor } from './log/executor.ts';
