import { setTimeout as sleep } from 'node:timers/promises';

interface Backoff {
  /** Waits for the next pause; returns early, without an error, when the signal fires. */
  wait(signal: AbortSignal): Promise<void>;
  reset(): void;
}

/** Doubles up to `maxMs`; half of each pause is random, so that two that failed together do not come back together. */
export function createBackoff({ minMs, maxMs }: { minMs: number; maxMs: number }): Backoff {
  let pauseMs = minMs;
  return {
    async wait(signal) {
      const thisMs = pauseMs * (0.5 + Math.random() / 2);
      pauseMs = Math.min(pauseMs * 2, maxMs);
      await sleep(thisMs, undefined, { signal }).catch(() => undefined);
    },
    reset() {
      pauseMs = minMs;
    },
  };
}
