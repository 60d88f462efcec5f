import type { ClientBase } from 'pg';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ident, identList } from '../db/identifier.ts';
import { sqlState, verdictOf } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import { logTable } from '../log/log-columns.ts';
import type { Loaded } from './load.ts';
import { loadOnce, noRow, notRunnable, selectErrors } from './load-once.ts';
import type { SqlLoadWork } from './load-once.ts';

/**
 * Loads what a select in the source gives, in one transaction: see `load-once.ts`.
 *
 * @throws EmendError `bad_arguments` for a select that cannot be run, or gives columns that the log lacks; `correction_invalid`
 *   for rows that the log refuses, or none; `backfill_refused`
 */
export function loadSql(work: SqlLoadWork): Promise<Loaded> {
  return loadOnce(work, (client) => insertSelect(client, work));
}

/** No cast: an assignment refuses what a cast would cut. */
async function insertSelect(client: ClientBase, { target, name, sql }: SqlLoadWork): Promise<number> {
  // names in the text mean what they mean to its author; how values look stays pinned
  await client.query('set local search_path to default');
  const select = `(${sql.trim().replace(/;+$/, '')}\n) as given`;
  const columns = await selectedColumns(client, target, select);
  try {
    const { rowCount } = await client.query(
      `insert into ${logTable(target)} (${identList([...columns, '_backfill'])})
       select ${identList(columns, 'given')}, $1 from ${select}`,
      [name],
    );
    if (rowCount !== null && rowCount > 0) return rowCount;
  } catch (error) {
    if (verdictOf(error) !== 'halve') throw error;
    throw new EmendError(
      'correction_invalid',
      `the log of ${target.name} refuses a row of the select: ${(error as Error).message}`,
      {
        remedy: 'Mend the select; nothing of it has been taken.',
        cause: error,
      },
    );
  }
  throw noRow();
}

async function selectedColumns(client: ClientBase, target: Target, select: string): Promise<string[]> {
  const { fields } = await client.query(`select * from ${select} limit 0`).catch((error: unknown) => {
    if (!selectErrors.test(sqlState(error) ?? '')) throw error;
    throw notRunnable(error, 'source');
  });
  const columns = fields.map((field) => field.name);
  const stated = statedColumns(target).map((column) => column.name);
  const unknown = columns.find((column) => ![...stated, '_op', '_reason'].includes(column));
  if (unknown === undefined) return columns;
  throw new EmendError(
    'bad_arguments',
    `the select gives ${ident(unknown)}, which ${target.name} has no column for`,
    {
      remedy: `Name its columns as those of the log: ${stated.join(', ')}, and _op or _reason where they are needed.`,
    },
  );
}
