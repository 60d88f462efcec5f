import type { Lsn } from './lsn.ts';

/**
 * Name of a batch, the same whenever the same rows are packed together again: they are one stretch of the source's
 * commit order, so its end position, its first and last row and its length name it.
 *
 * BullMQ takes ids without a colon that are not an integer; the queue adds its epoch.
 */
export function batchId(lsn: Lsn, firstId: string, lastId: string, rows: number): string {
  return `b-${lsn.toString(16)}-${firstId}-${lastId}-${rows}`;
}
