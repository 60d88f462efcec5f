import { kindOf } from '../config/findings.ts';
import { EmendError, isEmendError } from '../errors.ts';
import type { RowSource } from './define-backfill.ts';

/** What the function throws, as an error that says whose it is. */
export async function* rowsOf(
  give: Extract<RowSource, () => unknown>,
  fileName: string,
): AsyncGenerator<object> {
  try {
    const rows: unknown = await give();
    if (!isIterable(rows)) throw noRows(rows, fileName);
    yield* rows;
  } catch (error) {
    if (isEmendError(error)) throw error;
    const what = error instanceof Error ? error.message : String(error);
    throw new EmendError('bad_arguments', `${fileName}: the function that gives its rows failed: ${what}`, {
      remedy:
        'Mend it and run again: it goes on where it was, as long as what was loaded before comes out the same.',
      cause: error,
    });
  }
}

function isIterable(rows: unknown): rows is AsyncIterable<object> | Iterable<object> {
  return (
    typeof rows === 'object' && rows !== null && (Symbol.asyncIterator in rows || Symbol.iterator in rows)
  );
}

function noRows(given: unknown, fileName: string): EmendError {
  const what = given === undefined ? 'nothing' : kindOf(given);
  return new EmendError(
    'bad_arguments',
    `${fileName}: the function that gives its rows gives ${what}, and no rows`,
    { remedy: 'Write async function* () { … yield { … } }, or a function that returns a list.' },
  );
}
