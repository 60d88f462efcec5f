import type { Batch, QueuedBatch } from './batch.ts';

/**
 * The functions that stages take. `capture`, `queue` and `merge` know these types and not each other;
 * `pipeline/pipeline.ts` passes the real ones in.
 */

/**
 * Puts batches on the queue. Resolves once the queue has accepted every one of them. Rejects otherwise; then the
 * caller offers the same batches again (same ids, so what had been accepted is not doubled).
 */
export type Publish = (batches: readonly Batch[]) => Promise<void>;

/**
 * Whether everything accepted so far is still held by the same incarnation of the queue (its epoch). Asked after
 * the last `publish` and before a position is confirmed to the source: an emptied Redis must not let WAL go.
 * False is said once: confirm nothing, and offer again everything since the last confirmed position.
 */
export type Durable = () => Promise<boolean>;

/**
 * Merges a batch: resolves when every row of it is merged or set aside, in committed store transactions.
 * Rejects when nothing is lost by trying again later.
 */
export type Handle = (batch: Batch, signal: AbortSignal) => Promise<void>;

/** The same for what a queue hands over, with or without its rows. */
export type HandleQueued = (batch: QueuedBatch, signal: AbortSignal) => Promise<void>;

/** Where a stage says what it does; pino fits. Never a row value, never a password. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
