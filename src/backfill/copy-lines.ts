import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import type { ClientBase, Pool } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { identList } from '../db/identifier.ts';
import { verdictOf } from '../db/sqlstate.ts';
import { logTable } from '../log/log-columns.ts';
import type { PlainLines } from './plain-lines.ts';
import type { RowWriting } from './row-writing.ts';

/** Rows of the log, as numbers between which they are; others may be there too, of whoever writes at the same time. */
export interface WrittenRows {
  readonly first: string;
  readonly last: string;
  readonly rows: number;
}

/**
 * Columns of the log of which COPY may read a text in another way than the cast that records are written by: of an interval with
 * fields (`interval hour`) it takes them for the unit, and of a type with a cast of somebody's own from text it does not call that.
 */
export async function readCastColumns(source: Pool | ClientBase, target: Target): Promise<readonly string[]> {
  const { rows } = await source.query<{ name: string }>(
    `select a.attname as name
     from pg_attribute a
     join pg_type t on t.oid = a.atttypid
     left join pg_type e on e.oid = t.typelem
     where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
       and ('T' in (t.typcategory, e.typcategory)
         or exists (select from pg_cast c where c.castsource = 'text'::regtype and c.casttarget = t.oid and c.oid >= 16384))`,
    [logTable(target)],
  );
  return rows.map(({ name }) => name);
}

/** Whether lines can be written as they are: each field is a column of the log, and COPY reads its text as a cast does. */
export function areCopied({ target, ignore, openStart, cast = [] }: RowWriting, lines: PlainLines): boolean {
  const known = new Set([...statedColumns(target).map(({ name }) => name), '_op', '_reason']);
  const isCopied = (name: string): boolean =>
    known.has(name) && !ignore.includes(name) && !cast.includes(name);
  return openStart !== true && lines.columns.every(isCopied);
}

/**
 * Writes lines by COPY, in their order: the later row wins. As an input conversion it refuses what is too long, as an
 * assignment does. Undefined: it refuses some of them, and nothing is written.
 */
export async function copyLines(
  client: ClientBase,
  { target, name }: RowWriting,
  { columns, text }: PlainLines,
): Promise<WrittenRows | undefined> {
  await client.query('savepoint lines');
  const first = await readNumber(client, `select nextval('corrections._id')::text as number`);
  // a backfill's name needs no quotes
  const rows = text.replaceAll('\n', `,${name}\n`);
  const log = `${logTable(target)} (${identList([...columns, '_backfill'])})`;
  const copy = client.query(copyFrom(`copy ${log} from stdin with (format csv)`));
  try {
    await pipeline(Readable.from([Buffer.from(rows)]), copy);
  } catch (error) {
    if (verdictOf(error) !== 'halve') throw error;
    await client.query('rollback to savepoint lines; release savepoint lines');
    return undefined;
  }
  await client.query('release savepoint lines');
  const last = await readNumber(client, `select currval('corrections._id')::text as number`);
  return { first, last, rows: copy.rowCount };
}

async function readNumber(client: ClientBase, sql: string): Promise<string> {
  const { rows } = await client.query<{ number: string }>(sql);
  return rows[0]!.number;
}
