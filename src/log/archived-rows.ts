import type { ClientBase, Pool } from 'pg';
import { readArchiveFile } from './archive-file.ts';
import type { ArchivedFile } from './archive-records.ts';
import { ident, literal } from '../db/identifier.ts';
import { logTable } from './log-columns.ts';

/**
 * The rows of a file, in the order of their numbers, as texts of these columns of the log: what a select from the log would have
 * given (law 9). A column that the log has gained since has the value that the log's older rows were given.
 *
 * @param path where the file is now
 * @param rowsAtATime how many rows a page has at most
 * @throws EmendError `archive_unreadable` before the first page where the file is not, or is not what was archived
 */
export async function* readArchivedRows(
  source: Pool | ClientBase,
  { file, path = file.file }: { file: ArchivedFile; path?: string },
  columns: readonly string[],
  rowsAtATime: number,
): AsyncGenerator<(string | null)[][]> {
  let page: (string | null)[][] = [];
  let later: Map<string, string | null> | undefined;
  for await (const part of readArchiveFile(path, file.sha256)) {
    const places = columns.map((name) => part.columns.indexOf(name));
    later ??= await readLaterValues(
      source,
      file.target,
      columns.filter((_, index) => places[index] === -1),
    );
    for (const row of part.rows) {
      page.push(
        places.map((place, index) => (place === -1 ? (later!.get(columns[index]!) ?? null) : row[place]!)),
      );
      if (page.length < rowsAtATime) continue;
      yield page;
      page = [];
    }
  }
  if (page.length > 0) yield page;
}

/** What rows hold in columns that were added after them: the default as it was then, where the catalogue still has it, else as it is. */
async function readLaterValues(
  source: Pool | ClientBase,
  target: string,
  columns: readonly string[],
): Promise<Map<string, string | null>> {
  if (columns.length === 0) return new Map();
  const { rows } = await source.query<{ name: string; missing: string | null; expression: string | null }>(
    `select a.attname as name, (a.attmissingval::text::text[])[1] as missing, pg_get_expr(d.adbin, d.adrelid) as expression
     from pg_attribute a
     left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = to_regclass(${literal(logTable({ name: target }))}) and a.attname = any($1::text[]) and not a.attisdropped`,
    [columns],
  );
  const values = new Map(rows.map(({ name, missing }) => [name, missing]));
  const evaluated = rows.filter(({ missing, expression }) => missing === null && expression !== null);
  if (evaluated.length === 0) return values;
  const { rows: defaults } = await source.query<Record<string, string | null>>(
    `select ${evaluated.map(({ name, expression }) => `case when ${expression} is distinct from null then concat(${expression}) end as ${ident(name)}`).join(', ')}`,
  );
  return new Map([...values, ...Object.entries(defaults[0]!)]);
}
