import { sqlState } from '../db/sqlstate.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { describeError } from '../observe/describe-error.ts';
import type { ErrorDescription } from '../observe/describe-error.ts';

/** Writes an error to stderr and returns the exit code that it means. */
export function reportError(error: unknown, asJson: boolean): number {
  const told = asMissingRight(error);
  process.stderr.write(`${asJson ? errorAsJson(told) : errorAsText(told)}\n`);
  return isEmendError(told) && told.disposition === 'refuse' ? 2 : 1;
}

/** A right that is missing is no fault of ours, wherever a server said so. */
function asMissingRight(error: unknown): unknown {
  if (isEmendError(error) || sqlState(error) !== '42501') return error;
  return new EmendError('permission_missing', `this role may not do that: ${(error as Error).message}`, {
    remedy: 'Run it as a role that may; docs/operations.md says under "Rights" what each needs.',
    cause: error,
  });
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
