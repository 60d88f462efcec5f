import { formatLsn } from '../change/lsn.ts';
import type { Durable, Log, Publish } from '../change/ports.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { createBackoff } from './backoff.ts';
import { replicationName } from './names.ts';
import { requirePublication } from './publication.ts';
import { startSession } from './session.ts';
import type { Session } from './session.ts';
import { ensureSlot, slotState } from './slot.ts';
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
/** Steady, so that the slot is taken over soon after it is free. */
const slotPauses = { minMs: 1_000, maxMs: 1_000 };
const closeTimeoutMs = 5_000;

export function createCapture(options: CaptureOptions): Capture {
  const { url, targets, log } = options;
  const slot = replicationName(options.slot);
  const publication = replicationName(options.publication);
  const stopping = new AbortController();
  let state: CaptureState = 'not_started';
  let session: Session | undefined;
  let running: Promise<void> | undefined;
  let positions = { received: 0n, enqueued: 0n, confirmed: 0n };
  let lastMessageAt: number | undefined;
  let cutBefore = 0;
  let lastError: CaptureStatus['lastError'];
  let sawSlot = false;

  /** Publication, then slot, then stream, all on the connection that streams. */
  async function openSession(client: Walsender): Promise<Session> {
    await requirePublication(client, { publication, targets });
    if (!sawSlot && (await ensureSlot(client, { slot })) === 'created') {
      log.info({ slot }, 'created the replication slot');
    }
    sawSlot = true;
    const found = await slotState(client, slot);
    if (found.kind === 'missing') throw slotMissing(slot);
    if (found.kind === 'lost') throw slotLost(slot, found.reason);
    if (found.kind === 'in_use') throw slotInUse(slot, found.pid);
    return startSession(client, found.confirmed, {
      ...options,
      liveness: options.liveness ?? defaultLiveness,
    });
  }

  async function streamOnce(onStreaming: () => void): Promise<void> {
    const client = createWalsender(url);
    const abandon = (): void => void client.connection.stream.destroy();
    stopping.signal.addEventListener('abort', abandon, { once: true });
    try {
      await connectWalsender(client);
      session = await openSession(client);
      stopping.signal.removeEventListener('abort', abandon); // from here on there is a farewell: `session.close`
      state = 'streaming';
      onStreaming();
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
    positions = { received: ended.received, enqueued: ended.enqueued, confirmed: ended.confirmed };
    lastMessageAt = ended.lastMessageAt;
    cutBefore += ended.transactionsCut;
  }

  async function supervise(): Promise<void> {
    const reconnects = createBackoff(reconnectPauses);
    const turns = createBackoff(slotPauses);
    let everStreamed = false;
    while (!stopping.signal.aborted) {
      if (state === 'not_started') state = 'connecting';
      try {
        await streamOnce(() => {
          everStreamed = true;
          reconnects.reset();
        });
      } catch (error) {
        const met = toEmendError(error, slot);
        if (stopping.signal.aborted) break;
        note(met);
        // What is refused at first is a wrong setting; later it is a change that somebody may take back.
        if (met.disposition === 'manual' || (met.disposition === 'refuse' && !everStreamed)) throw met;
        await (met.code === 'slot_in_use' ? turns : reconnects).wait(stopping.signal);
      }
    }
  }

  function note(error: EmendError): void {
    const waits = error.code === 'slot_in_use';
    const isNews = !waits || state !== 'waiting_for_slot';
    state = waits ? 'waiting_for_slot' : 'reconnecting';
    lastError = { code: error.code, message: error.message, at: Date.now() };
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

  options.signal?.addEventListener('abort', () => void stop(), { once: true });

  return {
    run: () => (running ??= run()),
    stop,
    status() {
      const { received, enqueued, confirmed } = session ?? positions;
      return {
        state: state === 'streaming' && session?.queueError ? 'queue_unavailable' : state,
        received: formatLsn(received),
        enqueued: formatLsn(enqueued),
        confirmed: formatLsn(confirmed),
        lastMessageAt: session?.lastMessageAt ?? lastMessageAt,
        transactionsCut: cutBefore + (session?.transactionsCut ?? 0),
        lastError,
      };
    },
  };
}

function toEmendError(error: unknown, slot: string): EmendError {
  if (isEmendError(error)) return error;
  const code = sqlState(error);
  const said = error instanceof Error && error.message !== '' ? error.message : (code ?? 'no reason given');
  if (code === '55006') return slotInUse(slot);
  if (code === '42704') return decodedWithoutPublication(slot, error);
  if (code === '42501' || code?.startsWith('28') === true) {
    return new EmendError('permission_missing', `the source refuses the reader: ${said}`, {
      remedy:
        'Check user and password of the replication URL; its role needs REPLICATION and a line in pg_hba.conf.',
      cause: error,
    });
  }
  return new EmendError(
    'source_unavailable',
    `the replication connection ended or could not start: ${said}`,
    {
      remedy: 'Check that the source runs and is reachable; the reader tries again by itself.',
      cause: error,
    },
  );
}

function slotInUse(slot: string, pid?: number): EmendError {
  const holder = pid === undefined ? '' : ` (process ${pid} of the source)`;
  return new EmendError('slot_in_use', `another reader has slot ${slot}${holder}`, {
    remedy: 'Nothing has to be done: this reader takes over when the other one ends.',
  });
}

function slotMissing(slot: string): EmendError {
  return new EmendError(
    'slot_missing',
    `slot ${slot} was there and is gone: somebody dropped it, or the source was replaced`,
    {
      remedy:
        'Start the reader again: it creates the slot. Rows that were committed in between are in the log; `emend sweep` brings them.',
    },
  );
}

/** PostgreSQL 15 to 17 look for the publication as it was at the position that they decode, so it never comes back there. */
function decodedWithoutPublication(slot: string, cause: unknown): EmendError {
  return new EmendError('publication_missing', `slot ${slot} stands where the publication did not exist`, {
    remedy:
      `Run \`emend migrate\`, drop the slot (select pg_drop_replication_slot('${slot}')) and start the reader again: it creates the slot. ` +
      'Rows that were committed in between are in the log; `emend sweep` brings them.',
    cause,
  });
}

function slotLost(slot: string, reason: string): EmendError {
  return new EmendError('slot_lost', `the source has given slot ${slot} up (${reason})`, {
    remedy:
      `Drop it (select pg_drop_replication_slot('${slot}')), look at max_slot_wal_keep_size, and start the reader again: it creates the slot. ` +
      'Rows that were committed in between are in the log; `emend sweep` brings them.',
  });
}
