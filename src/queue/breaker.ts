import type { Log } from '../change/ports.ts';
import type { BullWorker } from './broker.ts';

const burst = 20;
const withinMs = 1_000;
const pauseMs = 2_000;
/** An outage pauses it again and again; that is told now and then. */
const repeatAfterMs = 30_000;

/**
 * BullMQ's loop asks again at once after an error that is not a lost connection: a Redis without memory was asked some
 * 7,000 times a second. And while the store is away, every waiting job would be tried and put off. So a burst of
 * failures, whatever their reason, pauses the worker for a moment.
 */
export function createBreaker(worker: BullWorker, log: Log): { count(): void } {
  let since = 0;
  let failures = 0;
  let toldAt = -Infinity;

  function count(): void {
    const now = Date.now();
    if (now - since > withinMs) {
      since = now;
      failures = 0;
    }
    failures += 1;
    if (failures === burst && !worker.isPaused()) void pause();
  }

  async function pause(): Promise<void> {
    if (Date.now() - toldAt > repeatAfterMs) {
      log.warn({ pauseMs }, 'too many failures at once: the worker pauses');
      toldAt = Date.now();
    }
    await worker.pause(true);
    setTimeout(() => {
      if (!worker.closing) void worker.resume();
    }, pauseMs);
  }

  return { count };
}
