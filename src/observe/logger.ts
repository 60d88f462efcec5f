/**
 * Where emend says what it does: JSON lines on stderr.
 *
 * Promise: no password and no value of a user's row is ever in a log line.
 * If it breaks: personal data and secrets spread to wherever logs are kept.
 */
import pino from 'pino';
import { describeError } from './describe-error.ts';
import { maskPasswords } from './mask-passwords.ts';

export interface LoggerOptions {
  /** `EMEND_LOG_LEVEL`: trace, debug, info, warn, error, fatal or silent. */
  readonly level?: string | undefined;
  /** Bound to every line: the role of the process. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

export function createLogger({ level, fields = {} }: LoggerOptions = {}): pino.Logger {
  return pino(
    {
      level: level !== undefined && levels.includes(level) ? level : 'info',
      base: fields,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError, error: describeError },
      hooks: { streamWrite: maskPasswords },
    },
    // written before the call returns: the last lines of a dying process are the ones that are wanted
    pino.destination({ dest: 2, sync: true }),
  );
}

const levels = [...Object.keys(pino.levels.values), 'silent'];
