import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch } from '../change/batch.ts';
import type { Durable, Log, Publish } from '../change/ports.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { createBackoff } from './backoff.ts';
import type { LsnBook } from './lsn-book.ts';

/**
 * The way of one connection's batches to the queue: one call at a time, everything that waits in it, in order.
 *
 * Promise: a batch is offered until it is accepted, and nothing behind it is confirmed before. A queue that fails only
 * makes the lane wait; a queue that was emptied ends the connection, so that the server sends everything again that
 * was not confirmed.
 */
interface Lane {
  /** Bytes and batches that the queue has not accepted yet. */
  readonly bytes: number;
  readonly batches: number;
  /** The last refusal of the queue, until it accepts again. */
  readonly failing: EmendError | undefined;
  offer(batch: Batch, complete: boolean): void;
  /** Resolves when everything offered is accepted and confirmed, or the lane was stopped. */
  drained(): Promise<void>;
  stop(): void;
}

interface LaneOptions {
  readonly book: LsnBook;
  readonly publish: Publish;
  readonly durable: Durable;
  readonly log: Log;
  readonly onAccepted: () => void;
  readonly onConfirmed: () => void;
  /** What was accepted is gone: only the source still has it. */
  readonly onFailure: (error: unknown) => void;
}

/** One call of `publish`; the queue splits it further as it likes. */
const maxBatchesPerCall = 64;
const maxBytesPerCall = 1024 * 1024;

const queuePauses = { minMs: 50, maxMs: 5_000 };

/** The source is told no oftener (`confirmSoon`), so the queue is not asked for each of its small batches. */
const confirmPauseMs = 50;

export function createLane(options: LaneOptions): Lane {
  const { book, publish, durable, log, onAccepted, onConfirmed, onFailure } = options;
  const stopping = new AbortController();
  const stopped = (): boolean => stopping.signal.aborted;
  const waiting: Batch[] = [];
  let bytes = 0;
  let failing: EmendError | undefined;
  let publishing: Promise<void> | undefined;
  let confirming: Promise<void> | undefined;
  let askAgainAt = 0;

  /** Calls again and again until the queue answers; undefined when the lane was stopped. */
  async function insist<T>(what: string, call: () => Promise<T>): Promise<T | undefined> {
    const backoff = createBackoff(queuePauses);
    while (!stopped()) {
      try {
        const answer = await call();
        if (failing) log.info({}, 'the queue accepts batches again');
        failing = undefined;
        return answer;
      } catch (error) {
        const isNews = !failing;
        failing = toQueueError(what, error);
        if (stopped()) return undefined;
        // an outage is told once, and its end
        if (isNews) log.warn({ code: failing.code, waitingBatches: waiting.length }, failing.message);
        await backoff.wait(stopping.signal);
      }
    }
    return undefined;
  }

  function giveUp(error: unknown): void {
    stopping.abort();
    onFailure(error);
  }

  function startPublishing(): void {
    if (publishing || waiting.length === 0 || stopped()) return;
    publishing = publishAll()
      .catch(giveUp)
      .finally(() => (publishing = undefined))
      .then(startPublishing);
  }

  async function publishAll(): Promise<void> {
    while (waiting.length > 0) {
      const call = nextCall(waiting);
      const accepted = await insist('did not accept batches', async () => {
        await publish(call);
        return true;
      });
      if (accepted !== true || stopped()) return;
      waiting.splice(0, call.length);
      for (const batch of call) bytes -= batch.bytes;
      book.accept(call.length);
      startConfirming();
      onAccepted();
    }
  }

  function startConfirming(): void {
    if (confirming || book.enqueued <= book.confirmed || stopped()) return;
    confirming = confirmAll()
      .catch(giveUp)
      .finally(() => (confirming = undefined))
      .then(startConfirming);
  }

  async function pauseUntil(at: number): Promise<void> {
    const ms = at - performance.now();
    if (ms > 0) await sleep(ms, undefined, { signal: stopping.signal }).catch(() => undefined);
  }

  /** The question comes after the acceptance that it is about; what is accepted in the meantime needs the next one. */
  async function confirmAll(): Promise<void> {
    while (book.enqueued > book.confirmed) {
      await pauseUntil(askAgainAt);
      askAgainAt = performance.now() + confirmPauseMs;
      const upTo = book.enqueued;
      const isDurable = await insist('did not say whether it still holds what it accepted', durable);
      if (isDurable === undefined || stopped()) return;
      if (!isDurable) throw forgotten();
      book.confirm(upTo);
      onConfirmed();
    }
  }

  return {
    get bytes() {
      return bytes;
    },
    get batches() {
      return waiting.length;
    },
    get failing() {
      return failing;
    },
    offer(batch, complete) {
      waiting.push(batch);
      bytes += batch.bytes;
      book.offer(complete ? batch.endLsn : null);
      startPublishing();
    },
    async drained() {
      while (publishing ?? confirming) await (publishing ?? confirming);
    },
    stop() {
      stopping.abort();
    },
  };
}

function nextCall(waiting: readonly Batch[]): Batch[] {
  const call: Batch[] = [];
  let bytes = 0;
  for (const batch of waiting.slice(0, maxBatchesPerCall)) {
    bytes += batch.bytes;
    if (call.length > 0 && bytes > maxBytesPerCall) break;
    call.push(batch);
  }
  return call;
}

function toQueueError(what: string, error: unknown): EmendError {
  if (isEmendError(error)) return error;
  return new EmendError('queue_unavailable', `the queue ${what}: ${nameOf(error)}`, {
    remedy: 'Check that the server of the queue runs; the rows are safe in the log and are offered again.',
    cause: error,
  });
}

/** Not the message: it may hold a command with its arguments, which are rows. */
function nameOf(error: unknown): string {
  return sqlState(error) ?? (error instanceof Error ? error.name : 'unknown error');
}

function forgotten(): EmendError {
  return new EmendError('queue_unavailable', 'the queue no longer holds all that it accepted', {
    remedy: 'Nothing has to be done: what was not confirmed is read from the source again.',
  });
}
