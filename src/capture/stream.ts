import { setTimeout as sleep } from 'node:timers/promises';
import { formatLsn } from '../change/lsn.ts';
import type { Lsn } from '../change/lsn.ts';
import { EmendError } from '../errors.ts';
import type { LsnBook } from './lsn-book.ts';
import { replicationName } from './names.ts';
import { createPacing } from './pacing.ts';
import { readWalMessage, standbyStatus } from './wire.ts';
import type { Walsender } from './walsender.ts';

/**
 * One run of START_REPLICATION: messages in, status updates out.
 *
 * Promise: the server hears from us often enough, whatever else happens; it never hears a position that the book has
 * not confirmed; a server that has fallen silent is noticed. The start position is always 0/0: the slot knows it.
 */
export interface ReplicationStream {
  /** Resolves after `close`, rejects with the first failure otherwise. */
  readonly ended: Promise<void>;
  readonly lastMessageAt: number;
  /** Stops reading (not the status updates) until it is called with false. */
  hold(on: boolean): void;
  /** Something new was confirmed: tells the server soon. */
  confirmSoon(): void;
  fail(error: unknown): void;
  /** Last status update, end of the copy, within `timeoutMs`. */
  close(timeoutMs: number): Promise<void>;
}

interface StreamOptions {
  readonly client: Walsender;
  readonly slot: string;
  readonly publication: string;
  readonly book: LsnBook;
  readonly senderTimeoutMs: number;
  readonly liveness: Liveness;
  /** A message of the output plugin; what it throws ends the stream. */
  readonly onPayload: (payload: Buffer) => void;
  /** As of `createPacing`. */
  readonly onTurnEnd: (fast: boolean) => number;
  readonly onWarning: (text: string) => void;
}

export interface Liveness {
  /** After this silence the server is asked for a sign of life … */
  readonly pingAfterMs: number;
  /** … and after this one, or a longer one that the server may need, the connection is given up. */
  readonly deadAfterMs: number;
}

/** Confirmations that follow one another closely go together: each makes the server look at its slot. */
const confirmSoonMs = 50;
const longestStatusPauseMs = 10_000;
const statusPauseWithoutTimeoutMs = 10_000;

/**
 * A server that shuts down asks again and again until we confirm the last position. While the queue is away we cannot,
 * and the shutdown must not hang on that: rows that are not confirmed come again.
 */
const hurryMs = 100;
const hurriesBeforeGivingWay = 20;

export async function startStream(options: StreamOptions): Promise<ReplicationStream> {
  const { client, book, liveness, onPayload } = options;
  const { connection } = client;
  const socket = connection.stream;
  let failure: unknown;
  let closing = false;
  let lastMessageAt = Date.now();
  let lastReplyAt = 0;
  let askedFor: Lsn = -1n;
  let hurries = 0;
  let soon: NodeJS.Timeout | undefined;

  function fail(error: unknown): void {
    failure ??= error;
    socket.destroy();
  }

  function sendStatus(requestReply = false): void {
    clearTimeout(soon);
    soon = undefined;
    if (socket.destroyed) return;
    connection.sendCopyFromChunk(
      standbyStatus({ received: book.received, confirmed: book.confirmed, requestReply }),
    );
  }

  function sendSoon(pauseMs: number): void {
    soon ??= setTimeout(sendStatus, pauseMs);
  }

  function answer(end: Lsn): void {
    const now = Date.now();
    const isRepeated = end === askedFor && now - lastReplyAt < 2 * hurryMs;
    hurries = isRepeated ? hurries + 1 : 0;
    askedFor = end;
    lastReplyAt = now;
    if (hurries >= hurriesBeforeGivingWay) return fail(wantsToStop(end));
    // Answered at once, it would ask again at once, and both would do nothing else.
    if (isRepeated && book.confirmed < end) sendSoon(hurryMs);
    else sendStatus();
  }

  function handle(chunk: Buffer): void {
    const message = readWalMessage(chunk);
    if (message.kind === 'keepalive') {
      const before = book.confirmed;
      book.keepalive(message.end);
      if (message.replyRequested) answer(message.end);
      else if (book.confirmed > before) sendSoon(confirmSoonMs);
      return;
    }
    book.receive(message.start);
    onPayload(message.payload);
  }

  connection.on('copyData', ({ chunk }) => {
    lastMessageAt = Date.now();
    if (closing || failure !== undefined) return;
    try {
      handle(chunk);
    } catch (error) {
      fail(error);
    }
  });
  connection.on('notice', ({ severity, message }) => {
    if (severity === 'WARNING') options.onWarning(message ?? '');
  });

  // Before the start: rows may come in the same read as the server's answer.
  const pacing = createPacing(socket, (fast) =>
    closing || failure !== undefined ? 0 : options.onTurnEnd(fast),
  );
  const started = new Promise<void>((resolve) => connection.once('replicationStart', resolve));
  const copy = client.query(startCommand(options.slot, options.publication)).then(
    () => undefined,
    (error: unknown) => Promise.reject(failure ?? error),
  );
  await Promise.race([started, copy]);
  const statusTimer = setInterval(sendStatus, statusPauseMs(options.senderTimeoutMs));
  const deadAfterMs = deadAfter(liveness, options.senderTimeoutMs);
  const watchTimer = setInterval(watch, Math.min(1_000, liveness.pingAfterMs));
  sendStatus();

  function watch(): void {
    if (pacing.isHeld) {
      lastMessageAt = Date.now(); // we do not listen, so its silence says nothing
      return;
    }
    const silentMs = Date.now() - lastMessageAt;
    if (silentMs >= deadAfterMs) fail(fellSilent(silentMs));
    else if (silentMs >= liveness.pingAfterMs) sendStatus(true);
  }

  const ended = copy
    .then(() => {
      if (!closing) throw serverEnded();
    })
    .finally(() => {
      clearInterval(statusTimer);
      clearInterval(watchTimer);
      clearTimeout(soon);
      pacing.stop();
    });
  ended.catch(() => undefined); // whoever waits for it hears of it

  return {
    ended,
    get lastMessageAt() {
      return lastMessageAt;
    },
    hold: (on) => pacing.hold(on),
    confirmSoon: () => sendSoon(confirmSoonMs),
    fail,
    async close(timeoutMs) {
      sendStatus();
      closing = true;
      pacing.hold(false); // the server's farewell stands behind what it has sent already
      connection.endCopyFrom();
      const deadline = new AbortController();
      await Promise.race([
        ended.catch(() => undefined),
        sleep(timeoutMs, undefined, { signal: deadline.signal }).catch(() => undefined),
      ]);
      deadline.abort();
      socket.destroy();
    },
  };
}

/** Protocol 1 without streaming: only transactions that have committed are sent. */
function startCommand(slot: string, publication: string): string {
  return (
    `START_REPLICATION SLOT "${replicationName(slot)}" LOGICAL 0/0 ` +
    `(proto_version '1', publication_names '"${replicationName(publication)}"')`
  );
}

function statusPauseMs(timeoutMs: number): number {
  if (timeoutMs === 0) return statusPauseWithoutTimeoutMs;
  return Math.min(timeoutMs / 3, longestStatusPauseMs);
}

/**
 * While the server decodes a long transaction of which nothing is published, it looks at what we send only after half of its own
 * timeout. Given up before, the connection would begin with that transaction again, for ever.
 */
function deadAfter({ pingAfterMs, deadAfterMs }: Liveness, senderTimeoutMs: number): number {
  return Math.max(deadAfterMs, senderTimeoutMs / 2 + 2 * pingAfterMs);
}

function fellSilent(silentMs: number): EmendError {
  return new EmendError(
    'source_unavailable',
    `the source has sent nothing for ${Math.round(silentMs / 1_000)} s`,
    {
      remedy: 'Check the network between the reader and the source; the reader connects again.',
    },
  );
}

function serverEnded(): EmendError {
  return new EmendError('source_unavailable', 'the source ended the replication stream', {
    remedy: 'The reader connects again; look into the log of the source if it happens often.',
  });
}

function wantsToStop(end: Lsn): EmendError {
  return new EmendError(
    'source_unavailable',
    `the source waits for position ${formatLsn(end)}, probably to shut down, and the queue does not take the rows before it`,
    { remedy: 'Bring the queue back; the reader connects again and the rows come again.' },
  );
}
