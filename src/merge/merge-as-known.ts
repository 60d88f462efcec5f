import type { Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { mergeRows, prepareTargets, readDefaults } from './prepared-target.ts';
import { takeKeys } from './take-keys.ts';

/**
 * Merges corrections as they were known at a time in the past, which becomes their K. Only history that was known before
 * emend may come this way, in the order in which it was known: an answer about a later time was given without it otherwise.
 *
 * @param knownAt K, a timestamptz as text; rows of one target
 * @throws EmendError `correction_invalid` when something later is told already, or the time is not in the past
 */
export async function mergeAsKnown(
  pool: Pool,
  target: Target,
  rows: LogRows,
  knownAt: string,
): Promise<void> {
  const k = `current_setting('emend.known_at')::timestamptz`;
  const prepared = (await prepareTargets(pool, [target], k, 'import')).get(target.name)!;
  await withTransaction(pool, async (client) => {
    await takeKeys(client, [{ target, number: prepared.number, rows }]);
    const { rows: refusals } = await client.query<{ refusal: string | null }>(
      `select case
         when $2::timestamptz >= emend.settled() then 'is not in the past'
         when exists (select from emend.merge m where m.target = $1 and m.told_at > $2::timestamptz)
           then 'is earlier than what has been told of it already'
       end as refusal`,
      [target.name, knownAt],
    );
    const refusal = refusals[0]?.refusal;
    if (refusal) {
      throw new EmendError(
        'correction_invalid',
        `${target.name}: what was known at ${knownAt} cannot be imported: that time ${refusal}`,
        {
          remedy: 'Import known history in its order, before any live correction of the target.',
        },
      );
    }
    await client.query(`select set_config('emend.known_at', $1, true)`, [knownAt]);
    await mergeRows(client, prepared, rows, await readDefaults(client, target, rows));
  });
}
