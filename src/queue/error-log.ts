import type { Log } from '../change/ports.ts';
import { isEmendError } from '../errors.ts';

/** An outage or a full server makes thousands of errors a second: each kind is told at once, then counted. */
const repeatAfterMs = 30_000;

export interface ErrorLog {
  report(error: unknown, fields?: object): void;
}

export function createErrorLog(log: Log, message: string, fields: object): ErrorLog {
  const kinds = new Map<string, { toldAt: number; untold: number }>();

  function report(error: unknown, more: object = {}): void {
    const code = codeOf(error);
    const now = Date.now();
    const kind = kinds.get(code) ?? { toldAt: -Infinity, untold: 0 };
    kinds.set(code, kind);
    if (now - kind.toldAt < repeatAfterMs) {
      kind.untold += 1;
      return;
    }
    const repeated = kind.untold > 0 ? { repeated: kind.untold } : {};
    log.warn({ ...fields, ...more, code, ...reasonOf(error), ...repeated }, message);
    kind.toldAt = now;
    kind.untold = 0;
  }

  return { report };
}

/**
 * An error in one word: `ECONNREFUSED`, `OOM`, `57P01`, `queue_unavailable`. Messages and properties of Redis and
 * Postgres errors quote arguments, which are rows and passwords, and are therefore neither logged nor stored.
 */
export function codeOf(error: unknown): string {
  const { code, message, name } = Object(error) as { code?: unknown; message?: unknown; name?: unknown };
  if (typeof code === 'string' && code !== '') return code;
  if (typeof code === 'number') return `bullmq ${code}`;
  const reply = /^[A-Z][A-Z_]{2,}\b/.exec(typeof message === 'string' ? message : '');
  return reply?.[0] ?? (typeof name === 'string' ? name : 'Error');
}

/** Only errors of emend's own say what happened without quoting anything. */
function reasonOf(error: unknown): object {
  return isEmendError(error) ? { reason: error.message, remedy: error.remedy } : {};
}
