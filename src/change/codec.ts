import { EmendError } from '../errors.ts';
import type { Batch, LogRows } from './batch.ts';
import { formatLsn, parseLsn } from './lsn.ts';

/** The form of a batch inside a queue job. Plain JSON: texts, nulls and small counts; no value is a JSON number. */
export interface BatchJson {
  readonly v: 1;
  readonly id: string;
  readonly parts: readonly LogRows[];
  readonly rows: number;
  readonly bytes: number;
  readonly lsn: string;
  readonly at: number;
}

export function encodeBatch(batch: Batch): BatchJson {
  const { id, parts, rows, bytes } = batch;
  return {
    v: 1,
    id,
    parts,
    rows,
    bytes,
    lsn: formatLsn(batch.endLsn),
    at: batch.committedAtMs,
  };
}

/** @throws EmendError `batch_invalid` for a job that another version of emend, or somebody else, wrote. */
export function decodeBatch(json: unknown): Batch {
  const job = json as Partial<BatchJson> | null;
  if (
    job?.v !== 1 ||
    typeof job.id !== 'string' ||
    !Array.isArray(job.parts) ||
    typeof job.lsn !== 'string'
  ) {
    throw new EmendError('batch_invalid', 'a queue job is not a batch of this version of emend', {
      remedy:
        'Let readers and workers run the same version of emend; the rows themselves are safe in the log and will be merged from there.',
    });
  }
  return {
    id: job.id,
    parts: job.parts as LogRows[],
    rows: job.rows ?? 0,
    bytes: job.bytes ?? 0,
    endLsn: parseLsn(job.lsn),
    committedAtMs: job.at ?? 0,
  };
}
