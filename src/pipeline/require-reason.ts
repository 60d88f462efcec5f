import { EmendError } from '../errors.ts';

/**
 * A reason is kept for ever and is all that a later reader has: blanks are none.
 *
 * @throws EmendError `bad_arguments`
 */
export function requireReason(reason: string): void {
  if (reason.trim() !== '') return;
  throw new EmendError('bad_arguments', 'the reason (--reason) is empty', {
    remedy: 'Say why, for whoever reads the record later.',
  });
}
