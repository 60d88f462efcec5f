import { maskPasswords } from './mask-passwords.ts';

export interface ErrorDescription {
  readonly type: string;
  readonly code?: string;
  readonly message: string;
  readonly remedy?: string;
  /** Which object of the database it is about: names only. */
  readonly table?: string;
  readonly column?: string;
  readonly constraint?: string;
  readonly cause?: ErrorDescription;
  readonly stack?: string;
}

/**
 * An error in the words that may be written down. Postgres puts row values into `detail`, `where` and some messages,
 * drizzle puts the whole statement with its parameters into the message: these are left out.
 */
export function describeError(error: unknown): ErrorDescription {
  if (!(error instanceof Error))
    return { type: typeof error, message: 'something that is not an error was thrown' };
  const { code, remedy, table, column, constraint } = error as Error & Partial<Record<string, unknown>>;
  const message = safeMessage(error);
  return {
    type: error.name,
    ...texts({ code, remedy, table, column, constraint }),
    message,
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
    ...(isProgrammingError(error) ? { stack: framesOf(error) } : {}),
  };
}

function safeMessage(error: Error): string {
  if (isDrizzleError(error)) return 'a query failed';
  return maskPasswords(isServerError(error) ? withoutValues(error) : error.message);
}

function isDrizzleError(error: Error): boolean {
  return 'query' in error && 'params' in error;
}

/** pg's errors carry the severity that the server sent. */
function isServerError(error: Error): boolean {
  return 'severity' in error;
}

/** Data exceptions quote the value; what a trigger raises may hold anything. */
function withoutValues(error: Error): string {
  const code = String((error as { code?: unknown }).code);
  if (code.startsWith('22')) return error.message.replaceAll(/(["']).*\1/gs, '"…"');
  if (code.startsWith('P0'))
    return 'raised by a function or trigger; its text is not logged, as it may hold row values';
  return error.message;
}

/** Only a mistake of the program is worth its frames. The first lines of a stack repeat the message. */
function isProgrammingError(error: Error): boolean {
  return !('code' in error) && !isDrizzleError(error);
}

function framesOf(error: Error): string {
  return (error.stack ?? '')
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .join('\n');
}

function texts(fields: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(fields).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}
