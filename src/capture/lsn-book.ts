import type { Lsn } from '../change/lsn.ts';

/**
 * What one replication connection knows about positions, and the only place that decides what may be confirmed.
 *
 * Promise: `confirmed` is the end of a source transaction whose every batch, and every batch before it, was accepted
 * by the queue and found durable afterwards; or a position that the server named while nothing at all was on its way.
 * It never goes backwards. If that were broken, rows would be lost: what lies before a confirmed position is never
 * sent again.
 */
export interface LsnBook {
  readonly received: Lsn;
  readonly enqueued: Lsn;
  readonly confirmed: Lsn;
  /** Any position seen on the socket. */
  receive(lsn: Lsn): void;
  /** A transaction begins; until its commit has come nothing is idle. */
  begin(): void;
  /** A transaction without rows has nothing to wait for. */
  commit(end: Lsn, hasRows: boolean): void;
  /** The server has sent everything that committed before `lsn`. */
  keepalive(lsn: Lsn): void;
  /** A batch goes to the queue, in stream order. Null: it ends inside a transaction. */
  offer(end: Lsn | null): void;
  /** The queue has the oldest `count` batches that were offered and not yet accepted. */
  accept(count: number): void;
  /** Everything up to `upTo`, a former `enqueued`, was durable when asked after it was accepted. */
  confirm(upTo: Lsn): void;
}

/** @param base the slot's own confirmed position: where the server starts to send. */
export function createLsnBook(base: Lsn): LsnBook {
  const offered: (Lsn | null)[] = [];
  let [received, enqueued, confirmed, heard] = [base, base, base, base];
  let inTransaction = false;
  /** End of the last transaction with rows that was read: until it is confirmed, something is on its way. */
  let lastEnd = base;

  /**
   * Without this a busy table outside the publication would keep WAL for ever. What was heard while rows were on
   * their way counts once they are confirmed: everything sent before it has been dealt with by then.
   */
  function settle(): void {
    if (inTransaction || confirmed < lastEnd || heard <= confirmed) return;
    confirmed = heard;
    enqueued = max(enqueued, heard);
  }

  return {
    get received() {
      return received;
    },
    get enqueued() {
      return enqueued;
    },
    get confirmed() {
      return confirmed;
    },
    receive(lsn) {
      received = max(received, lsn);
    },
    begin() {
      inTransaction = true;
    },
    commit(end, hasRows) {
      inTransaction = false;
      received = max(received, end);
      if (hasRows) lastEnd = max(lastEnd, end);
      else heard = max(heard, end);
      settle();
    },
    keepalive(lsn) {
      received = max(received, lsn);
      heard = max(heard, lsn);
      settle();
    },
    offer(end) {
      offered.push(end);
    },
    accept(count) {
      if (count > offered.length) throw new RangeError('more batches accepted than were offered');
      for (const end of offered.splice(0, count)) if (end !== null) enqueued = max(enqueued, end);
    },
    confirm(upTo) {
      if (upTo > enqueued) throw new RangeError('a position can only be confirmed once it was enqueued');
      confirmed = max(confirmed, upTo);
      settle();
    },
  };
}

function max(a: Lsn, b: Lsn): Lsn {
  return a > b ? a : b;
}
