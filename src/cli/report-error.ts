import { isEmendError } from '../errors.ts';
import type { EmendError } from '../errors.ts';
import { describeError } from '../observe/describe-error.ts';
import type { ErrorDescription } from '../observe/describe-error.ts';

/** Writes an error to stderr and returns the exit code that it means. */
export function reportError(error: unknown, asJson: boolean): number {
  process.stderr.write(`${asJson ? errorAsJson(error) : errorAsText(error)}\n`);
  return isEmendError(error) && error.disposition === 'refuse' ? 2 : 1;
}

function errorAsJson(error: unknown): string {
  if (!isEmendError(error)) {
    const details = describeError(error);
    return JSON.stringify({ error: { code: 'unexpected', message: details.message, details } });
  }
  const { code, message, remedy, problems } = error;
  return JSON.stringify({ error: { code, message, remedy, problems } });
}

function errorAsText(error: unknown): string {
  return isEmendError(error) ? textOf(error) : unexpected(describeError(error));
}

function textOf({ message, remedy, problems }: EmendError): string {
  const lines = problems.map(({ path, problem, remedy: todo }) => `  ${path}: ${problem}\n    ${todo}`);
  return [`emend: ${message}`, ...lines, remedy].join('\n');
}

function unexpected({ type, code, message, cause, stack }: ErrorDescription): string {
  const what = [code, message].filter(Boolean).join(' ');
  return [
    `emend: unexpected ${type}: ${what}`,
    ...(cause ? [`caused by: ${cause.code ?? ''} ${cause.message}`] : []),
    stack ?? '',
  ]
    .join('\n')
    .trimEnd();
}
