import type { ClientBase, Pool, QueryConfig } from 'pg';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import { readAppendColumns } from '../log/append-columns.ts';
import { describeBadRow } from './bad-row.ts';
import { insertRows } from './insert-rows.ts';
import type { Loaded } from './load.ts';
import { loadOnce, noRow, notRunnable, selectErrors } from './load-once.ts';
import type { SqlLoadWork } from './load-once.ts';
import { pieceOfRows, pieces } from './pieces.ts';
import type { FileRow } from './file-row.ts';
import type { RowWriting } from './row-writing.ts';

/**
 * Loads what a select in the store gives: corrections that are worked out from what is believed. One transaction on each side,
 * see `load-once.ts`.
 *
 * @throws EmendError `bad_arguments` for a select that cannot be run, `correction_invalid` for rows that the log refuses, or
 *   none; `backfill_refused`
 */
export function loadStoreSql(work: SqlLoadWork & { readonly store: Pool }): Promise<Loaded> {
  return loadOnce(work, (client) => copyRows(client, work));
}

async function copyRows(
  client: ClientBase,
  { store, target, name, sql }: SqlLoadWork & { readonly store: Pool },
): Promise<number> {
  const columns = await readAppendColumns(client, target.name);
  const writing: RowWriting = { target, name, columns, ignore: [] };
  let rows = 0;
  for await (const { items } of pieces(selectRows(store, sql), pieceOfRows)) {
    await insertRows(client, writing, items, ({ line }, bad) => {
      throw new EmendError(
        'correction_invalid',
        `the log of ${target.name} refuses row ${line} of the select: ${describeBadRow(bad)}`,
        { remedy: 'Mend the select; nothing of it has been taken.' },
      );
    });
    rows += items.length;
  }
  if (rows === 0) throw noRow();
  return rows;
}

/** Through a cursor, at one snapshot; every value as the server's own text (law 9). */
async function* selectRows(store: Pool, sql: string): AsyncGenerator<FileRow> {
  const client = await store.connect();
  try {
    await client.query('begin isolation level repeatable read read only');
    // names in the text mean what they mean to its author; how values look stays pinned
    await client.query('set local search_path to default');
    const fetch = async (): Promise<FileRow['values'][]> =>
      (await client.query<Record<string, string | null>>(`fetch ${pieceOfRows.size} from given`)).rows;
    const text = `declare given cursor for ${sql.trim().replace(/;+$/, '')}`;
    // extended: a second statement in the text is refused
    const statement: QueryConfig & { queryMode: 'extended' } = { text, queryMode: 'extended' };
    await client.query(statement).catch(refuse);
    for (let line = 0; ;) {
      const rows = await fetch().catch(refuse);
      for (const values of rows) yield { line: ++line, values };
      if (rows.length < pieceOfRows.size) return;
    }
  } finally {
    await client.query('rollback').finally(() => client.release());
  }
}

function refuse(error: unknown): never {
  throw selectErrors.test(sqlState(error) ?? '') ? notRunnable(error, 'store') : error;
}
