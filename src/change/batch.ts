import type { Lsn } from './lsn.ts';

/** Operations of a log row. `withdraw` exists only for targets in `until_next` mode. */
export type Op = 'upsert' | 'retract' | 'withdraw';

/**
 * Rows of one log table, column-wise. Every value is the server's own text under the pinned settings, or null,
 * from the WAL to the cast in the store (law 9): nothing in between parses it.
 */
export interface LogRows {
  readonly target: string;
  /** The user's columns and emend's (`_id`, `_op`, …), in the order of `values`. */
  readonly columns: readonly string[];
  /** One array a column, all of one length. */
  readonly values: readonly (readonly (string | null)[])[];
}

/**
 * What becomes visible together: whole source transactions, or a piece of one that was larger than
 * `atomicRows` or `atomicBytes` (law 7).
 */
export interface Batch {
  /** Unique for its content, whatever the packing: built from positions, ids and counts (`change/batch-id.ts`). */
  readonly id: string;
  readonly parts: readonly LogRows[];
  readonly rows: number;
  /** Bytes of text in `parts`, roughly what the queue has to hold. */
  readonly bytes: number;
  /** End position of the last source transaction in it: what may be confirmed once the queue has it. */
  readonly endLsn: Lsn;
  /** Commit time of its first transaction at the source, ms since 1970: for latency figures only, never data. */
  readonly committedAtMs: number;
}

/**
 * Rows of one log table that are in the log alone, to be read from there when their turn has come. A committed row of a log
 * never changes, so its number and its nonce are as good as the row.
 */
export interface LogRefs {
  readonly target: string;
  readonly rows: number;
  /** Their `_id`s, in order and packed (`change/id-list.ts`). */
  readonly ids: string;
  /** Xor of their `_nonce`s: whether the log holds these rows, or others under their numbers. */
  readonly nonces: string;
  /** The greatest `_xid` among them. While it may still be open for others, a row that is not found may yet be. */
  readonly lastXid: string;
}

/** A batch by reference: the same rows under the same id, and so many bytes fewer on the queue. */
export interface ReferringBatch extends Omit<Batch, 'parts'> {
  readonly refs: readonly LogRefs[];
}

export type QueuedBatch = Batch | ReferringBatch;
