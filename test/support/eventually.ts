import { setTimeout as sleep } from 'node:timers/promises';

/** Tries `fn` again, with growing pauses, until it does not throw, and returns what it returned. */
export async function eventually<T>(
  fn: () => T | Promise<T>,
  options: { timeoutMs?: number } = {},
): Promise<T> {
  const timeoutMs = options.timeoutMs ?? 15_000;
  const start = performance.now();
  for (let pauseMs = 5; ; pauseMs = Math.min(pauseMs * 1.5, 500)) {
    try {
      return await fn();
    } catch (error) {
      if (performance.now() - start + pauseMs < timeoutMs) {
        await sleep(pauseMs);
        continue;
      }
      if (error instanceof Error) error.message = `still not so after ${timeoutMs} ms: ${error.message}`;
      throw error;
    }
  }
}

/** Checks again and again that `fn` does not throw, for the whole time: "it stays so". */
export async function holds(fn: () => void | Promise<void>, options: { forMs?: number } = {}): Promise<void> {
  const forMs = options.forMs ?? 1_000;
  const start = performance.now();
  do {
    try {
      await fn();
    } catch (error) {
      const held = Math.round(performance.now() - start);
      if (error instanceof Error) error.message = `held for ${held} of ${forMs} ms only: ${error.message}`;
      throw error;
    }
    await sleep(Math.min(50, forMs / 10));
  } while (performance.now() - start < forMs);
}
