import type { Problem } from '../errors.ts';
import type { QueueCounts } from '../queue/queue.ts';
import type { LackingArchive } from './archive-status.ts';
import type { BackfillStatus } from './backfill-status.ts';
import type { CutStatus } from './cut-report.ts';
import type { DivergedStatus } from './diverged-status.ts';
import type { ReadersStatus } from './slot-status.ts';
import type { SweepStatus } from './sweep-status.ts';

export interface Status extends ReadersStatus {
  readonly install: string;
  readonly queue: QueueStatus;
  readonly targets: readonly TargetStatus[];
  /** Answers about the past are final up to `at`. */
  readonly settled: { readonly at: string; readonly lagMs: number };
  readonly sweep: SweepStatus;
  readonly cut: CutStatus;
  readonly diverged: DivergedStatus;
  /** Files of archived rows that the store lacks the effect of. */
  readonly lackingArchives: readonly LackingArchive[];
  /** Those that are under way. */
  readonly backfills: readonly BackfillStatus[];
  /** What is not as it should be, and what to do about it. Empty: all is well. */
  readonly problems: readonly Problem[];
}

/** Not counted where it does not answer, or answers and cannot be used as it is. */
export type QueueStatus = { readonly kind: 'redis' | 'postgres' } & (
  QueueCounts | { readonly reachable: boolean }
);

export interface TargetStatus {
  readonly name: string;
  readonly kind: 'facts' | 'timeline';
  readonly table: string;
  readonly migrated: boolean;
  /** Rows of its log that had their effect. */
  readonly merged: number;
  readonly setAside: number;
}
