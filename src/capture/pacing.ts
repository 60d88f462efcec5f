import type { Socket } from 'node:net';

/**
 * Decides when the socket is read.
 *
 * A walsender flushes once a row. A reader that wakes up for every flush costs itself and the server about twice the
 * processor time, so while data streams fast each read is followed by a short rest, in which more gathers. A reader
 * that had to wait for its data does not rest: then latency counts.
 */
interface Pacing {
  readonly isHeld: boolean;
  /** Stops reading until it is called with false: the queue has to catch up first. */
  hold(on: boolean): void;
  stop(): void;
}

/** Reads that found their data waiting, one after the other, before the stream counts as fast. */
const fastAfterReads = 8;
const waitedMs = 0.5;
const restMs = 1;
/** What one read takes at most (a constant of libuv): after a full one there is more to take at once. */
const fullRead = 65_536;

/** @param onReadEnd called after the messages of one read have been handled; `fast`: more is on its way. */
export function createPacing(socket: Socket, onReadEnd: (fast: boolean) => void): Pacing {
  let held = false;
  let resting: NodeJS.Timeout | undefined;
  let readableSince = performance.now();
  let streak = 0;

  function apply(): void {
    const stopped = held || resting !== undefined;
    if (stopped === socket.isPaused()) return;
    if (stopped) socket.pause();
    else {
      readableSince = performance.now();
      socket.resume();
    }
  }

  function rest(): void {
    resting = setTimeout(() => {
      resting = undefined;
      apply();
    }, restMs);
    apply();
  }

  /** Before the messages of the read are handled. */
  function beforeRead(): void {
    streak = performance.now() - readableSince < waitedMs ? streak + 1 : 0;
  }

  function afterRead(chunk: Buffer): void {
    const fast = streak >= fastAfterReads;
    onReadEnd(fast);
    readableSince = performance.now();
    if (fast && chunk.length < fullRead && resting === undefined) rest();
  }

  socket.prependListener('data', beforeRead);
  socket.on('data', afterRead);
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
      socket.off('data', beforeRead);
      socket.off('data', afterRead);
      clearTimeout(resting);
      resting = undefined;
      held = false;
      apply();
    },
  };
}
