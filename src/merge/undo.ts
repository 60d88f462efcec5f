import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { ident } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { refold } from './refold.ts';
import type { TakenBack } from './refold.ts';
import { takeKeys } from './take-keys.ts';

export interface Undo {
  readonly target: Target;
  readonly id: string;
  /** The key of the correction, as text. */
  readonly key: readonly string[];
  readonly actor: string;
  readonly reason: string;
}

/**
 * Takes one correction back: the answer becomes what it would be had it never been written; later corrections stay, and
 * history shows what was believed meanwhile (law 4). Returns K, or null when it had been taken back before.
 *
 * @throws EmendError `correction_invalid` for one that was never merged
 */
export async function undoCorrection(
  pool: Pool,
  { target, id, key, actor, reason }: Undo,
): Promise<string | null> {
  const keys = key.map((text) => [text]);
  const lockedBy: LogRows = {
    target: target.name,
    columns: target.key.map(({ name }) => name),
    values: keys,
  };
  return withTransaction(pool, async (client) => {
    const number = await readNumber(client, target);
    await takeKeys(client, [{ target, number, rows: lockedBy }]);
    const { rows } = await client.query<{ merged: string; undone: string }>(
      `select
         (exists (select from emend.ledger_at($1::bigint) l where l.dismissed is null) or $1::bigint < 0)::text as merged,
         exists (select from emend.undone u where u._id = $1::bigint and u.target = $2)::text as undone`,
      [id, target.name],
    );
    if (rows[0]?.merged !== 'true') throw notMerged(target, id);
    if (rows[0].undone === 'true') return null;
    return refold(client, target, rowsOfCorrection(target, id, key), async (k) => {
      await client.query(
        `insert into emend.undone (_id, target, told_at, actor, reason) values ($1::bigint, $2, $3::timestamptz, $4, $5)`,
        [id, target.name, k, actor, reason],
      );
    });
  });
}

function rowsOfCorrection({ key: columns }: Target, id: string, key: readonly string[]): TakenBack {
  const ofKey = columns.map(
    ({ name, baseType, equals }, index) => `s.${ident(name)} ${equals} $${index + 3}::text::${baseType}`,
  );
  return { rows: ['s._version = $2::bigint', ...ofKey].join(' and '), values: [id, ...key] };
}

async function readNumber(client: ClientBase, target: Target): Promise<number> {
  const { rows } = await client.query<{ number: string }>(
    `select number::text as number from emend.target where name = $1`,
    [target.name],
  );
  return Number(rows[0]?.number);
}

function notMerged(target: Target, id: string): EmendError {
  return new EmendError('correction_invalid', `correction ${id} of ${target.name} has not been merged`, {
    remedy: `Wait for it (emend wait); a row that was set aside is discarded instead (emend dead list).`,
  });
}
