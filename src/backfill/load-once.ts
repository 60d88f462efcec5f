import { createHash } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { chunkBackfill } from '../log/backfill.ts';
import { asRefusal, requireOpen } from '../log/backfill-refusal.ts';
import { lockInput, readCheckpoint } from './checkpoint.ts';
import type { Checkpoint } from './checkpoint.ts';
import type { Loaded } from './load.ts';

export interface SqlLoadWork {
  readonly source: Pool;
  readonly target: Target;
  /** The backfill. */
  readonly name: string;
  /** A select whose columns are named as those of the log. */
  readonly sql: string;
  /** Names the input; default: from the text of the select. */
  readonly input?: string | undefined;
}

/**
 * Loads what a select gives in one transaction: all of it or nothing. Run again when done, it changes nothing, whatever the
 * select would give by then.
 *
 * @param write writes the rows, and returns how many; it throws when there are none
 * @throws EmendError `backfill_refused`
 */
export async function loadOnce(
  { source, target, name, sql, input: stated }: SqlLoadWork,
  write: (client: ClientBase) => Promise<number>,
): Promise<Loaded> {
  const checksum = createHash('sha256').update(sql).digest('hex');
  const input = stated ?? `sql-${checksum.slice(0, 12)}`;
  return withTransaction(source, async (client) => {
    await lockInput(client, name, target.name, input);
    const reached = await readCheckpoint(client, name, target.name, input);
    if (reached.isEnd && reached.checksum !== checksum) {
      throw new EmendError('backfill_refused', `backfill ${name} has rows of another select named ${input}`, {
        remedy: 'Give this one another name (--source <name>).',
      });
    }
    const loaded = { backfill: name, target: target.name, input, skipped: 0 };
    if (reached.isEnd) return { ...loaded, read: reached.read, written: 0 };
    await requireOpen(client, name, target.name);
    const rows = await write(client);
    const checkpoint: Checkpoint = {
      source: input,
      checksum,
      read: rows,
      skipped: 0,
      line: rows,
      isEnd: true,
    };
    await chunkBackfill(client, name, { target: target.name, loader: { ...checkpoint } });
    return { ...loaded, read: rows, written: rows };
  }).catch((error: unknown) => {
    throw asRefusal(error);
  });
}

export function noRow(): EmendError {
  return new EmendError('correction_invalid', 'the select gives no row', {
    remedy: 'Mend the select; nothing has been taken.',
  });
}

/** @param where the database in which it runs */
export function notRunnable(error: unknown, where: 'source' | 'store'): EmendError {
  return new EmendError(
    'bad_arguments',
    `the select cannot be run in the ${where}: ${(error as Error).message}`,
    { remedy: 'Give one select, without parameters.', cause: error },
  );
}

/** What Postgres says of a select that is none, or of names that are not there. */
export const selectErrors = /^(42|22|0A|2B)/;
