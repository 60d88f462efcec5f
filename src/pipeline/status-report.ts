import type { Problem } from '../errors.ts';
import type { QueueCounts } from '../queue/queue.ts';
import type { SweepStatus } from './sweep-status.ts';

export interface Status {
  readonly install: string;
  readonly slot: SlotStatus | null;
  readonly queue: QueueStatus;
  readonly targets: readonly TargetStatus[];
  /** Answers about the past are final up to `at`. */
  readonly settled: { readonly at: string; readonly lagMs: number };
  readonly sweep: SweepStatus;
  /** What is not as it should be, and what to do about it. Empty: all is well. */
  readonly problems: readonly Problem[];
}

export interface SlotStatus {
  readonly name: string;
  /** Whether a reader is connected. */
  readonly active: boolean;
  /** `reserved`, `extended`, `unreserved` or `lost`. */
  readonly walStatus: string;
  /** Up to here the queue has everything. */
  readonly confirmed: string | null;
  /** WAL written since. */
  readonly lagBytes: number;
  /** WAL that the server keeps for it. */
  readonly retainedBytes: number;
}

export type QueueStatus = { readonly kind: 'redis' | 'postgres' } & (
  QueueCounts | { readonly reachable: false }
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
