import { EmendError } from '../errors.ts';
import type { LogRefs, LogRows, QueuedBatch } from './batch.ts';
import { formatLsn, parseLsn } from './lsn.ts';
import { packColumn, unpackColumn } from './uniform.ts';
import type { PackedColumn } from './uniform.ts';

/** The form of a batch inside a queue job. Plain JSON: texts, nulls and small counts; no value is a JSON number. */
export interface BatchJson {
  readonly v: 1;
  readonly id: string;
  /** Either the rows … */
  readonly parts?: readonly PackedRows[];
  /** … or where they are. */
  readonly refs?: readonly LogRefs[];
  readonly rows: number;
  readonly bytes: number;
  readonly lsn: string;
  readonly at: number;
}

interface PackedRows extends Omit<LogRows, 'values'> {
  readonly rows: number;
  readonly values: readonly PackedColumn[];
}

function pack({ target, columns, values }: LogRows): PackedRows {
  return { target, columns, rows: values[0]?.length ?? 0, values: values.map(packColumn) };
}

function unpack({ target, columns, rows, values }: PackedRows): LogRows {
  return { target, columns, values: values.map((column) => unpackColumn(column, rows)) };
}

export function encodeBatch(batch: QueuedBatch): BatchJson {
  const { id, rows, bytes } = batch;
  return {
    v: 1,
    id,
    ...('refs' in batch ? { refs: batch.refs } : { parts: batch.parts.map(pack) }),
    rows,
    bytes,
    lsn: formatLsn(batch.endLsn),
    at: batch.committedAtMs,
  };
}

/** @throws EmendError `batch_invalid` for a job that another version of emend, or somebody else, wrote. */
export function decodeBatch(json: unknown): QueuedBatch {
  const job = json as Partial<BatchJson> | null;
  if (
    job?.v !== 1 ||
    typeof job.id !== 'string' ||
    !(Array.isArray(job.parts) || Array.isArray(job.refs)) ||
    typeof job.lsn !== 'string'
  ) {
    throw new EmendError('batch_invalid', 'a queue job is not a batch of this version of emend', {
      remedy:
        'Let readers and workers run the same version of emend; the rows themselves are safe in the log and will be merged from there.',
    });
  }
  return {
    id: job.id,
    ...(job.refs ? { refs: job.refs } : { parts: (job.parts ?? []).map(unpack) }),
    rows: job.rows ?? 0,
    bytes: job.bytes ?? 0,
    endLsn: parseLsn(job.lsn),
    committedAtMs: job.at ?? 0,
  };
}
