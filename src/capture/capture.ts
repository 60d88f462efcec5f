import { formatLsn } from '../change/lsn.ts';
import type { Durable, Log, Publish } from '../change/ports.ts';
import { isEmendError } from '../errors.ts';
import type { EmendError } from '../errors.ts';
import { createBackoff } from './backoff.ts';
import { replicationName } from './names.ts';
import { requirePublication } from './publication.ts';
import { startSession } from './session.ts';
import type { Session } from './session.ts';
import { aheadOfSource, ensureSlot, slotState } from './slot.ts';
import { slotGone, slotInUse, toSourceError } from './source-errors.ts';
import type { Liveness } from './stream.ts';
import { closeWalsender, connectWalsender, createWalsender } from './walsender.ts';
import type { Walsender } from './walsender.ts';

/**
 * The reader: log rows from the source's WAL into batches on the queue.
 *
 * Promise: every row that commits in a published log is offered to `publish` at least once, in the server's own text,
 * whole transactions together; a position is confirmed to the source only after the queue holds everything before it.
 * If that is broken, corrections are lost without anybody noticing before the next sweep.
 *
 * Files: `stream.ts` talks to the server, `pgoutput.ts` and `assembler.ts` read its messages, `packer.ts` makes
 * batches, `lane.ts` gives them to the queue, `lsn-book.ts` decides what may be confirmed; `session.ts` is one
 * connection of all these; here they are started again whenever one ends.
 */
export interface Capture {
  /** Ends after `stop`; rejects when a human has to act. */
  run(): Promise<void>;
  stop(): Promise<void>;
  status(): CaptureStatus;
}

/** Rows that are in the log and in no stream. */
export interface Gap {
  /**
   * The source was put back to an older state: it counts its transactions from there once more, so that how far its log was
   * compared with the ledger says nothing.
   */
  readonly isOlderSource: boolean;
}

export interface CaptureOptions {
  /** A direct connection to the source; poolers do not carry replication. */
  readonly url: string;
  readonly slot: string;
  readonly publication: string;
  /** Names of log tables in schema `corrections`. */
  readonly targets: readonly string[];
  readonly atomicRows: number;
  readonly atomicBytes: number;
  readonly lingerMs: number;
  readonly publish: Publish;
  readonly durable: Durable;
  /** How long the queue asks small transactions to wait for company, ms: more than 0 while it is full. */
  readonly queueLingerMs?: () => number;
  /** Called when rows are not in the stream: before the slot was made, or while the publication was gone. */
  readonly passedOver?: (gap: Gap) => Promise<unknown>;
  readonly log: Log;
  /** Aborting it is `stop`. */
  readonly signal?: AbortSignal;
  readonly liveness?: Liveness;
}

type CaptureState =
  | 'not_started'
  | 'connecting'
  /** Another reader has the slot; this one takes over when it goes. */
  | 'waiting_for_slot'
  | 'streaming'
  /** Connected, but the queue does not accept. */
  | 'queue_unavailable'
  | 'reconnecting'
  | 'stopped'
  /** A human has to act: see `lastError`. */
  | 'failed';

export interface CaptureStatus {
  readonly state: CaptureState;
  readonly received: string;
  readonly enqueued: string;
  readonly confirmed: string;
  readonly lastMessageAt: number | undefined;
  readonly transactionsCut: number;
  readonly lastError: { readonly code: string; readonly message: string; readonly at: number } | undefined;
}

const defaultLiveness: Liveness = { pingAfterMs: 10_000, deadAfterMs: 40_000 };
const reconnectPauses = { minMs: 100, maxMs: 5_000 };
/** Short, so that the slot is taken over soon after it is free. */
const slotPauses = { minMs: 100, maxMs: 1_000 };
const closeTimeoutMs = 5_000;

export function createCapture(options: CaptureOptions): Capture {
  const { url, targets, log } = options;
  const slot = replicationName(options.slot);
  const publication = replicationName(options.publication);
  const stopping = new AbortController();
  const reconnects = createBackoff(reconnectPauses);
  const turns = createBackoff(slotPauses);
  let state: CaptureState = 'not_started';
  let session: Session | undefined;
  let running: Promise<void> | undefined;
  let positions = { received: 0n, enqueued: 0n, confirmed: 0n };
  let lastMessageAt: number | undefined;
  let cutBefore = 0;
  let lastError: CaptureStatus['lastError'];
  /** Rows are in the log that are in no stream, and the sweep has not been asked yet. */
  let owed: Gap | undefined;
  let everStreamed = false;
  /** The last connection confirmed something: whatever ended it, it was worth having. */
  let madeProgress = false;

  /** Publication, then slot, then stream, all on the connection that streams. */
  async function openSession(client: Walsender): Promise<Session> {
    await requirePublication(client, { publication, targets });
    await makeSlot(client);
    const found = await slotState(client, slot);
    if (found.kind === 'in_use') throw slotInUse(slot, found.pid);
    if (found.kind !== 'ready') throw slotGone(slot);
    return startSession(client, found.confirmed, {
      ...options,
      liveness: options.liveness ?? defaultLiveness,
      requirePublication: lookForPublication,
      passedOver: async () => options.passedOver?.({ isOlderSource: false }),
    });
  }

  /** Whatever became of it: all rows are in the log, so a slot that is gone or lost is no reason to wait for a human. */
  async function makeSlot(client: Walsender): Promise<void> {
    const made = await ensureSlot(client, { slot });
    if (made.kind === 'created') log.info({ slot }, 'created the replication slot');
    if (made.kind === 'replaced') {
      log.warn(
        { slot, reason: made.reason },
        `the source has given slot ${slot} up (${made.reason}); it is made again, and the sweep brings what is not in the stream`,
      );
    }
    if (made.kind !== 'present') {
      const isOlderSource = made.kind === 'replaced' && made.reason === aheadOfSource;
      owed = { isOlderSource: isOlderSource || owed?.isOlderSource === true };
    }
    if (owed) await options.passedOver?.(owed);
    owed = undefined;
  }

  async function lookForPublication(): Promise<void> {
    const client = createWalsender(url);
    try {
      await connectWalsender(client);
      await requirePublication(client, { publication, targets });
    } finally {
      await closeWalsender(client);
    }
  }

  async function streamOnce(): Promise<void> {
    const client = createWalsender(url);
    const abandon = (): void => void client.connection.stream.destroy();
    stopping.signal.addEventListener('abort', abandon, { once: true });
    try {
      await connectWalsender(client);
      session = await openSession(client);
      stopping.signal.removeEventListener('abort', abandon); // from here on there is a farewell: `session.close`
      state = 'streaming';
      everStreamed = true;
      log.info({ slot, confirmed: formatLsn(session.confirmed) }, 'reading the source');
      await session.ended;
    } finally {
      stopping.signal.removeEventListener('abort', abandon);
      if (session) rememberFigures(session);
      session = undefined;
      await closeWalsender(client);
    }
  }

  function rememberFigures(ended: Session): void {
    madeProgress = ended.confirmed > positions.confirmed;
    positions = { received: ended.received, enqueued: ended.enqueued, confirmed: ended.confirmed };
    lastMessageAt = ended.lastMessageAt;
    cutBefore += ended.transactionsCut;
  }

  async function supervise(): Promise<void> {
    while (!stopping.signal.aborted) {
      if (state === 'not_started') state = 'connecting';
      try {
        await streamOnce();
      } catch (error) {
        const met = toSourceError(error, slot);
        if (stopping.signal.aborted) break;
        note(met);
        // What is refused at first is a wrong setting; later it is a change that somebody may take back.
        if (met.disposition === 'manual' || (met.disposition === 'refuse' && !everStreamed)) throw met;
        await nextTry(met);
      }
    }
  }

  async function nextTry(met: EmendError): Promise<void> {
    const waits = met.code === 'slot_in_use';
    if (!waits) turns.reset();
    if (madeProgress) reconnects.reset();
    madeProgress = false;
    await (waits ? turns : reconnects).wait(stopping.signal);
  }

  function note(error: EmendError): void {
    const waits = error.code === 'slot_in_use';
    const isNews = !waits || state !== 'waiting_for_slot';
    state = waits ? 'waiting_for_slot' : 'reconnecting';
    lastError = errorNow(error);
    if (isNews) log.warn({ code: error.code, slot }, error.message);
  }

  async function run(): Promise<void> {
    try {
      await supervise();
      state = 'stopped';
    } catch (error) {
      state = 'failed';
      log.error({ code: isEmendError(error) ? error.code : undefined, slot }, (error as Error).message);
      throw error;
    }
  }

  async function stop(): Promise<void> {
    stopping.abort();
    await session?.close(closeTimeoutMs);
    await running?.catch(() => undefined);
  }

  if (options.signal?.aborted === true) stopping.abort();
  options.signal?.addEventListener('abort', () => void stop(), { once: true });

  return {
    run: () => (running ??= run()),
    stop,
    status() {
      const { received, enqueued, confirmed } = session ?? positions;
      const queueError = session?.queueError;
      return {
        state: state === 'streaming' && queueError ? 'queue_unavailable' : state,
        received: formatLsn(received),
        enqueued: formatLsn(enqueued),
        confirmed: formatLsn(confirmed),
        lastMessageAt: session?.lastMessageAt ?? lastMessageAt,
        transactionsCut: cutBefore + (session?.transactionsCut ?? 0),
        lastError: queueError ? errorNow(queueError) : lastError,
      };
    },
  };
}

function errorNow({ code, message }: EmendError): CaptureStatus['lastError'] {
  return { code, message, at: Date.now() };
}
