import { EmendError } from '../errors.ts';
import { logTable } from './log-columns.ts';
import { runQuery } from './executor.ts';
import type { Executor } from './executor.ts';

/** A column of a log, as the database of the writer has it. */
export interface AppendColumn {
  readonly name: string;
  /** Without length, since a cast would cut silently. */
  readonly type: string;
  readonly defaultSql: string | null;
}

/**
 * Asked in every call: it costs a third of a millisecond, and a remembered answer would outlive a migration. Types and
 * defaults are printed for the search_path of the application's own session, in which the insert reads them again.
 *
 * @throws EmendError `not_migrated`
 */
export async function readAppendColumns(tx: Executor, name: string): Promise<AppendColumn[]> {
  const rows = await runQuery<{ columns: string | null }>(tx, {
    texts: [
      `select jsonb_agg(jsonb_build_object(
         'name', a.attname,
         'type', format_type(a.atttypid, -1),
         'defaultSql', pg_get_expr(d.adbin, d.adrelid)
       ) order by a.attnum)::text as columns
       from pg_attribute a
       left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
       where a.attrelid = to_regclass(`,
      `) and a.attnum > 0 and not a.attisdropped`,
    ],
    values: [logTable({ name })],
  });
  const columns = rows[0]?.columns;
  if (columns) return JSON.parse(columns) as AppendColumn[];
  throw new EmendError('not_migrated', `there is no log ${logTable({ name })} in this database`, {
    remedy: 'Run emend migrate, and write corrections in the database that source.url names.',
  });
}
