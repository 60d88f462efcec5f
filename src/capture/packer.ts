import { batchId } from '../change/batch-id.ts';
import type { Batch } from '../change/batch.ts';
import type { Lsn } from '../change/lsn.ts';
import { Pile } from './pile.ts';
import type { Layout } from './pile.ts';

/**
 * Groups rows into batches: whole source transactions, small ones together, up to `atomicRows` and `atomicBytes`.
 * A larger transaction is cut while it is still being received, so memory does not depend on its size. That is safe,
 * because pgoutput without streaming sends only what has committed.
 *
 * Promise (law 7): a transaction within the limits is never split over two batches.
 */
export interface Packer {
  /** Rows of complete transactions that wait for company. */
  readonly waitingRows: number;
  readonly transactionsCut: number;
  begin(transaction: Transaction): void;
  row(layout: Layout, texts: Readonly<Record<string, string | null>>, bytes: number): void;
  commit(end: Lsn): { readonly hasRows: boolean };
  /** Sends what waits. */
  flush(): void;
}

interface Transaction {
  /** Position of its commit record. */
  readonly commitLsn: Lsn;
  readonly committedAtMs: number;
}

interface PackerOptions {
  readonly atomicRows: number;
  readonly atomicBytes: number;
  /** `complete`: the batch ends where a transaction ends. */
  readonly emit: (batch: Batch, complete: boolean) => void;
}

export function createPacker({ atomicRows, atomicBytes, emit }: PackerOptions): Packer {
  /** Complete transactions, up to `waitingEnd`. */
  let waiting = new Pile();
  let waitingEnd: Lsn = 0n;
  /** Rows of the transaction that is being received. */
  let open = new Pile();
  let transaction: Transaction | undefined;
  let wasCut = false;
  let transactionsCut = 0;

  function fits(rows: number, bytes: number): boolean {
    return rows <= atomicRows && bytes <= atomicBytes;
  }

  function flush(): void {
    if (waiting.rows === 0) return;
    const batch = toBatch(waiting, waitingEnd);
    waiting = new Pile();
    emit(batch, true);
  }

  function cut(commitLsn: Lsn): void {
    flush();
    if (!wasCut) transactionsCut += 1;
    wasCut = true;
    const batch = toBatch(open, commitLsn);
    open = new Pile();
    emit(batch, false);
  }

  return {
    get waitingRows() {
      return waiting.rows;
    },
    get transactionsCut() {
      return transactionsCut;
    },
    begin(begun) {
      transaction = begun;
      wasCut = false;
    },
    row(layout, texts, bytes) {
      if (!transaction) throw new Error('a row outside a transaction');
      if (open.rows > 0 && !fits(open.rows + 1, open.bytes + bytes)) cut(transaction.commitLsn);
      open.add(layout, texts, bytes, transaction.committedAtMs);
    },
    commit(end) {
      transaction = undefined;
      const hasRows = open.rows > 0;
      if (!hasRows) return { hasRows };
      if (!fits(waiting.rows + open.rows, waiting.bytes + open.bytes)) flush();
      waiting = waiting.join(open);
      waitingEnd = end;
      open = new Pile();
      if (waiting.rows >= atomicRows || waiting.bytes >= atomicBytes) flush();
      return { hasRows };
    },
    flush,
  };
}

function toBatch(pile: Pile, lsn: Lsn): Batch {
  return {
    id: batchId(lsn, pile.firstId, pile.lastId, pile.rows),
    parts: pile.parts(),
    rows: pile.rows,
    bytes: pile.bytes,
    endLsn: lsn,
    committedAtMs: pile.committedAtMs,
  };
}
