import { createHash } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ident, identList } from '../db/identifier.ts';
import { sqlState, verdictOf } from '../db/sqlstate.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { chunkBackfill } from '../log/backfill.ts';
import { asRefusal, requireOpen } from '../log/backfill-refusal.ts';
import { logTable } from '../log/log-columns.ts';
import { lockInput, readCheckpoint } from './checkpoint.ts';
import type { Checkpoint } from './checkpoint.ts';
import type { Loaded } from './load.ts';

export interface SqlLoadWork {
  readonly source: Pool;
  readonly target: Target;
  /** The backfill. */
  readonly name: string;
  /** A select whose columns are named as those of the log. It runs in the source. */
  readonly sql: string;
  /** Names the input; default: from the text of the select. */
  readonly input?: string | undefined;
}

/**
 * Loads what a select in the source gives, in one transaction: all of it or nothing. Run again when done, it changes nothing,
 * whatever the select would give by then.
 *
 * @throws EmendError `bad_arguments` for a select that cannot be run, or gives columns that the log lacks; `correction_invalid`
 *   for rows that the log refuses, or none; `backfill_refused`
 */
export async function loadSql(work: SqlLoadWork): Promise<Loaded> {
  const { source, target, name } = work;
  const checksum = createHash('sha256').update(work.sql).digest('hex');
  const input = work.input ?? `sql-${checksum.slice(0, 12)}`;
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
    const rows = await insertSelect(client, work);
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
  throw new EmendError('correction_invalid', 'the select gives no row', {
    remedy: 'Mend the select; nothing has been taken.',
  });
}

async function selectedColumns(client: ClientBase, target: Target, select: string): Promise<string[]> {
  const { fields } = await client.query(`select * from ${select} limit 0`).catch((error: unknown) => {
    if (!/^(42|22|0A|2B)/.test(sqlState(error) ?? '')) throw error;
    throw new EmendError(
      'bad_arguments',
      `the select cannot be run in the source: ${(error as Error).message}`,
      {
        remedy: 'Give one select, without parameters.',
        cause: error,
      },
    );
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
