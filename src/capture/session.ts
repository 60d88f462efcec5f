import type { Lsn } from '../change/lsn.ts';
import type { Durable, Log, Publish } from '../change/ports.ts';
import { isEmendError } from '../errors.ts';
import type { EmendError } from '../errors.ts';
import { createAssembler, violation } from './assembler.ts';
import { createLane } from './lane.ts';
import { createLsnBook } from './lsn-book.ts';
import { createPacker } from './packer.ts';
import { RawTextPgoutput } from './pgoutput.ts';
import { startStream } from './stream.ts';
import type { Liveness, ReplicationStream } from './stream.ts';
import { senderTimeoutMs } from './walsender.ts';
import type { Walsender } from './walsender.ts';

/**
 * One replication connection from its start to its end: wires stream, parser, packer and lane together. Nothing of it
 * outlives the connection; what was not confirmed comes again with the next one.
 */
export interface Session {
  readonly ended: Promise<void>;
  readonly received: Lsn;
  readonly enqueued: Lsn;
  readonly confirmed: Lsn;
  readonly lastMessageAt: number;
  readonly transactionsCut: number;
  readonly queueError: EmendError | undefined;
  /** Takes nothing more in, waits a while for what is on its way, confirms it, says good-bye. */
  close(timeoutMs: number): Promise<void>;
}

interface SessionOptions {
  readonly slot: string;
  readonly publication: string;
  readonly targets: readonly string[];
  readonly atomicRows: number;
  readonly atomicBytes: number;
  readonly lingerMs: number;
  readonly publish: Publish;
  readonly durable: Durable;
  readonly queueLingerMs?: () => number;
  readonly log: Log;
  readonly liveness: Liveness;
  /** Looks for the publication on a connection of its own. Rejects when it is gone. */
  readonly requirePublication: () => Promise<void>;
  /** Called when the stream has passed over rows: they are in the log alone. */
  readonly passedOver: () => Promise<unknown>;
}

/** Text that the queue has not accepted: above it the socket is not read, below half of it again. */
const highWaterBytes = 4 * 1024 * 1024;
/** While the queue is behind, rows wait in the packer, where they become fewer and fuller batches. */
const backlogBatches = 8;

export async function startSession(client: Walsender, base: Lsn, options: SessionOptions): Promise<Session> {
  const { atomicRows, atomicBytes, lingerMs, log } = options;
  const highWater = Math.max(highWaterBytes, 4 * atomicBytes);
  const parser = new RawTextPgoutput();
  const book = createLsnBook(base);
  let stream: ReplicationStream | undefined;
  let streamsFast = false;
  let linger: NodeJS.Timeout | undefined;
  let lingersUntil = 0;
  let looking: Promise<unknown> | undefined;

  const lane = createLane({
    book,
    publish: options.publish,
    durable: options.durable,
    log,
    onAccepted() {
      if (lane.bytes <= highWater / 2) stream?.hold(false);
      sendOrWait();
    },
    onConfirmed: () => stream?.confirmSoon(),
    onFailure: (error) => stream?.fail(error),
  });
  const packer = createPacker({
    atomicRows,
    atomicBytes,
    emit(batch, complete) {
      lane.offer(batch, complete);
      if (lane.bytes >= highWater) stream?.hold(true);
    },
  });
  const assembler = createAssembler({
    targets: options.targets,
    packer,
    book,
    onForeignLog: (target) =>
      log.warn(
        { target },
        `corrections.${target} is published and is no target of this configuration: its rows stay in the log until emend starts with a configuration that has it`,
      ),
  });

  /** Alone, a row leaves at once; while others follow, it waits a little for company. */
  function sendOrWait(): void {
    if (packer.waitingRows === 0) return;
    const wishedMs = options.queueLingerMs?.() ?? 0;
    if (lane.batches === 0 && !streamsFast && wishedMs === 0) packer.flush();
    else if (!linger) startLinger(Math.max(lingerMs, wishedMs));
  }

  function startLinger(ms: number): void {
    linger = setTimeout(endOfLinger, ms);
    lingersUntil = performance.now() + ms;
  }

  function endOfLinger(): void {
    linger = undefined;
    if (lane.batches < backlogBatches) packer.flush();
  }

  function take(payload: Buffer): void {
    const message = parse(parser, payload);
    assembler.take(message, payload.length);
  }

  /**
   * PostgreSQL 18 leaves out a publication that did not exist at the position it decodes, warns, and goes on. If it exists
   * now, the warning is about the past: the rows of that time are in no stream any more, and the sweep brings them.
   */
  function lookForPublication(): void {
    looking ??= options
      .requirePublication()
      .then(options.passedOver)
      .catch((error: unknown) => stream?.fail(error))
      .finally(() => (looking = undefined));
  }

  stream = await startStream({
    client,
    slot: options.slot,
    publication: options.publication,
    book,
    senderTimeoutMs: await senderTimeoutMs(client),
    liveness: options.liveness,
    onPayload: take,
    onTurnEnd(fast) {
      streamsFast = fast;
      sendOrWait();
      return packer.waitingRows === 0 ? 0 : lingersUntil - performance.now();
    },
    onWarning(text) {
      log.warn({}, `the source warns: ${text}`);
      if (text.includes(options.publication)) lookForPublication();
    },
  });
  const live = stream;

  function stop(): void {
    clearTimeout(linger);
    lane.stop();
  }

  return {
    ended: live.ended.finally(stop),
    get received() {
      return book.received;
    },
    get enqueued() {
      return book.enqueued;
    },
    get confirmed() {
      return book.confirmed;
    },
    get lastMessageAt() {
      return live.lastMessageAt;
    },
    get transactionsCut() {
      return packer.transactionsCut;
    },
    get queueError() {
      return lane.failing;
    },
    async close(timeoutMs) {
      live.hold(true);
      packer.flush();
      const deadline = performance.now() + timeoutMs;
      await within(timeoutMs / 2, Promise.race([lane.drained(), live.ended]));
      stop();
      await live.close(Math.max(0, deadline - performance.now()));
    },
  };
}

function parse(parser: RawTextPgoutput, payload: Buffer): ReturnType<RawTextPgoutput['parse']> {
  try {
    return parser.parse(payload);
  } catch (error) {
    throw isEmendError(error) ? error : violation('a message could not be read', error);
  }
}

async function within(timeoutMs: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, timeoutMs)));
  await Promise.race([work.catch(() => undefined), timeout]);
  clearTimeout(timer);
}
