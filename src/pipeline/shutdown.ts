import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../change/ports.ts';

/** What has been started, to be ended in the opposite order, each within its time. */
export interface Shutdown {
  push(step: ShutdownStep): void;
  run(): Promise<void>;
}

export interface ShutdownStep {
  readonly name: string;
  readonly limitMs: number;
  readonly end: () => Promise<unknown>;
}

/** A step that fails or hangs is logged and left behind: being killed is safe, and the others still want their end. */
export function createShutdown(log: Log): Shutdown {
  const steps: ShutdownStep[] = [];
  let running: Promise<void> | undefined;
  async function runSteps(): Promise<void> {
    for (const { name, limitMs, end } of steps.toReversed()) {
      const late = new AbortController();
      const outcome = await Promise.race([
        end().then(
          () => 'ended',
          (error: unknown) => error,
        ),
        sleep(limitMs, 'late', { signal: late.signal }).catch(() => 'ended'),
      ]);
      late.abort();
      if (outcome !== 'ended')
        log.warn({ step: name, limitMs, err: outcome }, 'a part did not stop as it should');
    }
  }
  return {
    push: (step) => void steps.push(step),
    run: () => (running ??= runSteps()),
  };
}
