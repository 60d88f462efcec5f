import type { Socket } from 'node:net';

/**
 * Decides when the socket is read.
 *
 * A walsender flushes once a row. A reader that wakes up for every flush costs itself and the server about twice the
 * processor time, so while data streams fast each turn is followed by a short rest, in which more gathers. A reader
 * that had to wait for its data does not rest: then latency counts. Nor does it count while rows wait for company anyway: a source
 * that commits a few rows each millisecond would wake it for each of these transactions, at 0.2 ms each, for nothing.
 */
interface Pacing {
  readonly isHeld: boolean;
  /** Stops reading until it is called with false: the queue has to catch up first. */
  hold(on: boolean): void;
  stop(): void;
}

/** Turns of the event loop that found their data waiting, one after the other, before the stream counts as fast. */
const fastAfterTurns = 8;
const waitedMs = 0.5;
const restMs = 1;
const longestRestMs = 10;
/** A turn that brought so much shows that the reader is the slower side: what it would wait for is there already. */
const fullTurnBytes = 32_768;

/**
 * Works by turns of the event loop, not by chunks: over TLS every row is a chunk of its own.
 *
 * @param onTurnEnd called after all messages of a turn have been handled; `fast`: more is on its way. Returns how long rows that
 *   wait for company now will still do so, in ms; 0: none wait.
 */
export function createPacing(socket: Socket, onTurnEnd: (fast: boolean) => number): Pacing {
  let held = false;
  let resting: NodeJS.Timeout | undefined;
  let ending: NodeJS.Immediate | undefined;
  let readableSince = performance.now();
  let streak = 0;
  let turnBytes = 0;

  function apply(): void {
    const stopped = held || resting !== undefined;
    if (stopped === socket.isPaused()) return;
    if (stopped) socket.pause();
    else {
      readableSince = performance.now();
      socket.resume();
    }
  }

  function onData(chunk: Buffer): void {
    turnBytes += chunk.length;
    if (ending) return;
    streak = performance.now() - readableSince < waitedMs ? streak + 1 : 0;
    ending = setImmediate(endTurn);
  }

  function endTurn(): void {
    ending = undefined;
    const fast = streak >= fastAfterTurns;
    const isFull = turnBytes >= fullTurnBytes;
    turnBytes = 0;
    const rowsWaitMs = onTurnEnd(fast);
    readableSince = performance.now();
    // up to a moment before they leave: what has come by then leaves with them
    const ms = Math.max(fast ? restMs : 0, Math.min(rowsWaitMs - 1, longestRestMs));
    if (ms > 0 && !isFull && !resting) rest(ms);
  }

  function rest(ms: number): void {
    resting = setTimeout(() => {
      resting = undefined;
      apply();
    }, ms);
    apply();
  }

  socket.prependListener('data', onData); // before the messages are handled: their time is not waiting
  return {
    get isHeld() {
      return held;
    },
    hold(on) {
      if (held === on) return;
      held = on;
      apply();
    },
    stop() {
      socket.off('data', onData);
      clearImmediate(ending);
      clearTimeout(resting);
      resting = undefined;
      held = false;
      apply();
    },
  };
}
