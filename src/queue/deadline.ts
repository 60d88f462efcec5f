import { EmendError, isEmendError } from '../errors.ts';
import { codeOf } from './error-log.ts';

/** The result of `work`, or `queue_unavailable` when it takes longer. The work itself goes on; its end is ignored. */
export async function within<T>(
  limitMs: number,
  work: Promise<T>,
  doing: string,
  onLate?: () => void,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(unavailable(`${doing} took longer than ${Math.round(limitMs)} ms`));
      onLate?.();
    }, limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The same, where every failure means that the queue cannot be used just now. */
export async function answerOf<T>(
  limitMs: number,
  work: Promise<T>,
  doing: string,
  onLate?: () => void,
): Promise<T> {
  try {
    return await within(limitMs, work, doing, onLate);
  } catch (error) {
    throw isEmendError(error) ? error : unavailable(`${doing} failed (${codeOf(error)})`);
  }
}

/** Without the cause: errors of Redis carry the command that failed, with rows and passwords among its arguments. */
function unavailable(message: string): EmendError {
  return new EmendError('queue_unavailable', message, {
    remedy:
      'Check that the server of the queue runs, answers and has memory left; emend goes on by itself when it does.',
  });
}
