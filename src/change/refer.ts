import type { Batch, LogRefs, LogRows, ReferringBatch } from './batch.ts';
import { packIds } from './id-list.ts';

/** The same batch by reference. Its parts are whole rows of logs, as the reader and the sweep make them. */
export function referTo({ parts, ...batch }: Batch): ReferringBatch {
  const refs = parts.map(refer);
  return { ...batch, refs, bytes: refs.reduce((sum, { ids }) => sum + ids.length, 0) };
}

/** Whether these are the rows that were referred to, and all of them. */
export function areReferred(rows: LogRows, ref: LogRefs): boolean {
  return textsOf(rows, '_id').length === ref.rows && xorOfNonces(rows) === ref.nonces;
}

function refer(rows: LogRows): LogRefs {
  const ids = textsOf(rows, '_id');
  const xids = textsOf(rows, '_xid').map(BigInt);
  return {
    target: rows.target,
    rows: ids.length,
    ids: packIds(ids),
    nonces: xorOfNonces(rows),
    lastXid: String(xids.reduce((greatest, xid) => (xid > greatest ? xid : greatest), 0n)),
  };
}

function xorOfNonces(rows: LogRows): string {
  return String(textsOf(rows, '_nonce').reduce((xor, nonce) => xor ^ BigInt(nonce), 0n));
}

/** Of a column that every log has and that is never null. */
function textsOf({ target, columns, values }: LogRows, column: string): readonly string[] {
  const texts = values[columns.indexOf(column)];
  if (!texts) throw new TypeError(`rows of ${target} came without ${column}`);
  return texts as readonly string[];
}
