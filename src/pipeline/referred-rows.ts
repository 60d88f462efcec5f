import type { Pool } from 'pg';
import type { Batch, LogRefs, LogRows, QueuedBatch } from '../change/batch.ts';
import { unpackIds } from '../change/id-list.ts';
import type { Handle, HandleQueued, Log } from '../change/ports.ts';
import { areReferred } from '../change/refer.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { hasEnded, readRows } from '../sweep/log-pages.ts';

interface ReadingOptions {
  /** Pinned sessions: the texts are those that the reader would have sent (law 9). */
  readonly source: Pool;
  readonly log: Log;
}

/**
 * Gives a handler the rows of batches that came by reference: exactly those of the batch, whatever stands between their numbers,
 * so that whole transactions stay together (law 7). While the source is away, the batch waits.
 *
 * A log that has lost a row, or has another under its number, is not the one that the reader read: the source was restored or
 * replaced, or the row was merged meanwhile and archived. Then the batch is given up, and the sweep brings what the log holds.
 */
export function withRowsOfLog({ source, log }: ReadingOptions, handle: Handle): HandleQueued {
  return async (queued, signal) => {
    const batch = 'refs' in queued ? await readBatch(source, queued) : queued;
    if (batch) return handle(batch, signal);
    log.warn(
      { batch: queued.id },
      'the log no longer holds the rows of a batch as they were read: it is given up, and the sweep brings those that had no effect',
    );
  };
}

async function readBatch(
  source: Pool,
  { refs, ...batch }: Extract<QueuedBatch, { refs: unknown }>,
): Promise<Batch | undefined> {
  const parts: LogRows[] = [];
  for (const ref of refs) {
    const part = await readReferred(source, ref).catch((error: unknown) => {
      throw isEmendError(error) ? error : unreadable(ref, error);
    });
    if (!part) return undefined;
    parts.push(part);
  }
  return { ...batch, parts };
}

/** Undefined: the log does not hold these rows. */
async function readReferred(source: Pool, ref: LogRefs): Promise<LogRows | undefined> {
  const rows = await readPart(source, ref);
  if (areReferred(rows, ref)) return rows;
  // The stream may be ahead of what others see: a commit that waits for a synchronous standby is in the WAL already.
  if (!(await hasEnded(source, BigInt(ref.lastXid)))) throw notYet(ref);
  const again = await readPart(source, ref);
  return areReferred(again, ref) ? again : undefined;
}

async function readPart(source: Pool, { target, ids }: LogRefs): Promise<LogRows> {
  const wanted = unpackIds(ids);
  const { columns, rows } = await readRows(source, target, wanted);
  const found = wanted.map((id) => rows.get(id)).filter((row) => row !== undefined);
  return { target, columns, values: columns.map((column) => found.map((row) => row[column] ?? null)) };
}

function notYet({ target }: LogRefs): EmendError {
  return new EmendError(
    'source_unavailable',
    `rows of corrections.${target} that are on the queue by reference cannot be seen in the log yet`,
    {
      remedy:
        'They are tried again; if it stays so, look for a transaction that has been open in the source for long.',
    },
  );
}

function unreadable({ target }: LogRefs, error: unknown): EmendError {
  const reason = sqlState(error) ?? (error instanceof Error ? error.name : 'unknown error');
  return new EmendError(
    'source_unavailable',
    `rows of corrections.${target} that are on the queue by reference could not be read from the log (${reason})`,
    { remedy: 'Let the workers reach source.url and read the logs; the batch waits meanwhile.' },
  );
}
