import type { Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { ident, identList } from '../db/identifier.ts';
import { EmendError } from '../errors.ts';
import { readArchivedFiles, readArchivedIds } from '../log/archive-records.ts';
import type { ArchivedFile } from '../log/archive-records.ts';
import { readArchivedRows } from '../log/archived-rows.ts';
import { logTable } from '../log/log-columns.ts';
import { sameKey } from '../store/equality.ts';
import { askedArrays, askedKeys } from './workspace.ts';
import type { Examined } from './workspace.ts';

/** Rows fetched at a time: some megabytes. */
const pageRows = 5_000;

/** Texts of the columns that were asked for, a row each. */
export type Page = (string | null)[][];

/**
 * All rows that were ever written to a log, each once: those of the log, then those that were moved to files. The list of files is read
 * before the log and after it, so that a row that is moved meanwhile, either way, is met; and is not met twice.
 *
 * A file that cannot be read is noted in `verify_unread`: what it holds is taken for what the store has of it.
 */
export async function* logRows(
  source: Pool,
  examined: Examined,
  columns: readonly string[],
): AsyncGenerator<Page> {
  const { target } = examined;
  const before = await readArchivedFiles(source, [target.name]);
  yield* rowsOfLog(source, examined, columns);
  const after = await readArchivedFiles(source, [target.name]);
  const isIn = (files: readonly ArchivedFile[], { number }: ArchivedFile) =>
    files.some((file) => file.number === number);
  for (const file of [...before, ...after.filter((each) => !isIn(before, each))]) {
    const isSteady = isIn(before, file) && isIn(after, file);
    yield* rowsOfFile(source, examined, columns, file, isSteady);
  }
}

/** By pages of the primary key, without a long transaction that would hold the source's horizon back. */
async function* rowsOfLog(
  source: Pool,
  { target, keys }: Examined,
  columns: readonly string[],
): AsyncGenerator<Page> {
  const asked =
    keys === null
      ? ''
      : `join (select distinct ${askedKeys(target)} from ${askedArrays(target, 2)}) as asked on ${sameKey(target.key, 'l', 'asked')}`;
  const text = `
    select ${identList(columns, 'l')}
    from ${logTable(target)} l ${asked}
    where $1::bigint is null or l._id > $1::bigint
    order by l._id
    limit ${pageRows}`;
  const idPlace = columns.indexOf('_id');
  for (let after: string | null = null; ;) {
    const { rows }: { rows: Page } = await source.query({
      text,
      values: [after, ...(keys ?? [])],
      rowMode: 'array',
    });
    if (rows.length === 0) return;
    yield rows;
    after = rows.at(-1)![idPlace]!;
  }
}

async function* rowsOfFile(
  source: Pool,
  examined: Examined,
  columns: readonly string[],
  file: ArchivedFile,
  isSteady: boolean,
): AsyncGenerator<Page> {
  const path = examined.archives?.get(file.sha256) ?? file.file;
  try {
    for await (const page of readArchivedRows(source, { file, path }, columns, pageRows)) {
      const asked = examined.keys === null ? page : await ofAskedKeys(examined, columns, page);
      const fresh = isSteady ? asked : await notClaimed(examined, columns, asked);
      if (fresh.length > 0) yield fresh;
    }
  } catch (error) {
    if (!(error instanceof EmendError) || error.code !== 'archive_unreadable') throw error;
    await examined.client.query(
      `insert into pg_temp.verify_unread values ($1, $2, $3::bigint, $4::int8multirange)`,
      [file.file, error.message, String(file.rows), await readArchivedIds(source, file.number)],
    );
  }
}

/** By the equality of the key's types, as everywhere. */
async function ofAskedKeys(
  { client, target }: Examined,
  columns: readonly string[],
  page: Page,
): Promise<Page> {
  const typed = target.key.map(({ name, baseType }) => `a.${ident(name)}::${baseType} as ${ident(name)}`);
  const { rows } = await client.query<{ place: string }>(
    `select distinct t.place
     from (select ${typed.join(', ')}, a.place from unnest(${arraysOf(target)}) with ordinality as a (${keyNames(target)}, place)) as t
     join pg_temp.verify_asked q on ${sameKey(target.key, 't', 'q')}
     order by t.place`,
    target.key.map(({ name }) => page.map((row) => row[columns.indexOf(name)])),
  );
  return rows.map(({ place }) => page[Number(place) - 1]!);
}

async function notClaimed({ client }: Examined, columns: readonly string[], page: Page): Promise<Page> {
  const idPlace = columns.indexOf('_id');
  const { rows } = await client.query<{ id: string }>(
    `select c.id from pg_temp.verify_claim c where c.id = any($1::bigint[])`,
    [page.map((row) => row[idPlace])],
  );
  const claimed = new Set(rows.map(({ id }) => id));
  return page.filter((row) => !claimed.has(row[idPlace]!));
}

function arraysOf(target: Target): string {
  return target.key.map((_, index) => `$${index + 1}::text[]`).join(', ');
}

function keyNames(target: Target): string {
  return target.key.map(({ name }) => ident(name)).join(', ');
}
