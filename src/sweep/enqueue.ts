import type { Pool } from 'pg';
import type { Batch } from '../change/batch.ts';
import type { Publish } from '../change/ports.ts';
import { createPacker } from '../capture/packer.ts';
import type { Layout } from '../capture/pile.ts';
import { readRows } from './log-pages.ts';
import type { MissingRow } from './missing.ts';

export interface EnqueueOptions {
  readonly source: Pool;
  readonly publish: Publish;
  readonly atomicRows: number;
  readonly atomicBytes: number;
}

/** Rows read from the log at a time: with the widest rows, still little memory. */
const rowsPerRead = 250;
const bytesPerCall = 4 * 1024 * 1024;

/**
 * Puts rows on the queue as the reader would have: the rows of a transaction in one batch (law 7), up to the same bounds.
 * They have to be in the order of their transactions. The ids say where they come from, and are the same when the same rows
 * are put there again, so that a job that waits already is not doubled.
 *
 * Stops at the end of a transaction once `maxBytes` of text are on their way. Returns how many rows are.
 */
export async function enqueueRows(
  { source, publish, atomicRows, atomicBytes }: EnqueueOptions,
  missing: readonly MissingRow[],
  maxBytes: number,
): Promise<number> {
  let batches: Batch[] = [];
  let waitingBytes = 0;
  const packer = createPacker({
    atomicRows,
    atomicBytes,
    emit: (batch) => {
      batches.push({ ...batch, id: `s-${batch.id}` });
      waitingBytes += batch.bytes;
    },
  });

  async function send(): Promise<void> {
    const call = batches;
    batches = [];
    waitingBytes = 0;
    await publish(call);
  }

  const layouts = new Map<string, Layout>();
  const sent: MissingRow[] = [];
  let bytes = 0;
  let open: bigint | undefined;
  for (let start = 0; start < missing.length; start += rowsPerRead) {
    const page = await readTexts(source, missing.slice(start, start + rowsPerRead), layouts);
    for (const { row, layout, texts } of page) {
      // an owner has taken it out of the log: there is nothing to put on the queue
      if (!texts) {
        sent.push(row);
        continue;
      }
      if (row.xid !== open) {
        if (open !== undefined) packer.commit(0n);
        open = undefined;
        if (bytes >= maxBytes) break;
        open = row.xid;
        packer.begin({ commitLsn: 0n, committedAtMs: recordedAtMs(texts) });
      }
      row.bytes = sizeOf(texts);
      bytes += row.bytes;
      packer.row(layout, texts, row.bytes);
      sent.push(row);
    }
    if (waitingBytes >= bytesPerCall) await send();
    if (bytes >= maxBytes && open === undefined) break;
  }
  if (open !== undefined) packer.commit(0n);
  packer.flush();
  await send();
  const now = performance.now();
  for (const row of sent) row.sentAt = now;
  return sent.length;
}

type Texts = Readonly<Record<string, string | null>>;

async function readTexts(
  source: Pool,
  missing: readonly MissingRow[],
  layouts: Map<string, Layout>,
): Promise<{ row: MissingRow; layout: Layout; texts: Texts | undefined }[]> {
  const found = new Map<string, Map<bigint, Texts>>();
  for (const target of new Set(missing.map((row) => row.target))) {
    const ids = missing.filter((row) => row.target === target).map(({ id }) => id);
    const { columns, rows } = await readRows(source, target, ids);
    found.set(target, rows);
    // one layout as long as the columns stay as they are: the packer keeps rows of one layout together
    if (layouts.get(target)?.columns.join('\0') !== columns.join('\0'))
      layouts.set(target, { target, columns });
  }
  return missing.map((row) => ({
    row,
    layout: layouts.get(row.target)!,
    texts: found.get(row.target)!.get(row.id),
  }));
}

function sizeOf(texts: Texts): number {
  return Object.values(texts).reduce((sum, text) => sum + (text?.length ?? 0) + 4, 0);
}

/** For latency figures only. The session's time zone is UTC. */
function recordedAtMs({ _recorded_at: text }: Texts): number {
  return Date.parse(text?.replace(' ', 'T').replace(/\+00$/, 'Z') ?? '') || 0;
}
