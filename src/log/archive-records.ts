import type { ClientBase, Pool } from 'pg';
import { rowDigest } from '../change/row-digest.ts';
import { ident } from '../db/identifier.ts';
import { EmendError } from '../errors.ts';
import type { FileFigures } from './archive-file.ts';
import { logTable } from './log-columns.ts';

/** Numbers of one block in `corrections._archive_block`. */
export const archiveBlockSize = 65_536n;

/** A file with rows of a log, as `corrections._archive` has it; its rows are not in the log. */
export interface ArchivedFile {
  readonly number: string;
  readonly target: string;
  readonly rows: number;
  readonly firstId: string;
  readonly lastId: string;
  /** xor of their nonces, as text. */
  readonly nonces: string;
  readonly firstRecordedAt: string;
  readonly lastRecordedAt: string;
  /** The machine that wrote it, and the absolute path there. */
  readonly host: string;
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly archivedAt: string;
  readonly actor: string;
}

/** In the order of their first numbers. */
export async function readArchivedFiles(
  source: Pool | ClientBase,
  targets: readonly string[],
): Promise<ArchivedFile[]> {
  const { rows } = await source.query<{ file: string }>(
    `select jsonb_build_object(
       'number', a.number::text, 'target', a.target, 'rows', a.rows, 'nonces', a.nonces::text,
       'firstId', lower(a.ids)::text, 'lastId', (upper(a.ids) - 1)::text,
       'firstRecordedAt', a.first_recorded_at::text, 'lastRecordedAt', a.last_recorded_at::text,
       'host', a.host, 'file', a.file, 'bytes', a.bytes, 'sha256', a.sha256,
       'archivedAt', a.archived_at::text, 'actor', a.actor
     )::text as file
     from corrections._archive a
     where a.restored_at is null and a.target = any($1::text[])
     order by a.target, lower(a.ids), a.number`,
    [targets],
  );
  return rows.map(({ file }) => JSON.parse(file) as ArchivedFile);
}

/** Exactly the numbers of its rows, as text of an int8multirange. */
export async function readArchivedIds(source: Pool | ClientBase, number: string): Promise<string> {
  const { rows } = await source.query<{ ids: string }>(
    `select a.ids::text as ids from corrections._archive a where a.number = $1::bigint`,
    [number],
  );
  return rows[0]!.ids;
}

/** Of these numbers of a log, those whose rows are in a file. */
export async function archivedAmong(
  source: Pool | ClientBase,
  target: string,
  ids: readonly string[],
): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const { rows } = await source.query<{ id: string }>(
    `select n.id
     from (select range_agg(int8range(i.id, i.id, '[]')) as ids from unnest($2::bigint[]) as i (id)) as asked
     cross join lateral corrections._archived($1, asked.ids) as n (id)`,
    [target, ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** A file that was written, and read again. */
export interface WrittenFile {
  readonly figures: FileFigures;
  readonly host: string;
  readonly file: string;
  readonly before: string;
}

/**
 * Records a file, and takes its rows out of the log: both in the transaction of `source`, which has to be rolled back when this
 * throws. The rows that go are digested once more, so that what is lost to the log is what the file holds.
 *
 * @throws EmendError `invariant_broken` when the log does not have exactly the rows of the file
 */
export async function moveToArchive(source: ClientBase, target: string, written: WrittenFile): Promise<void> {
  const { figures, host, file, before } = written;
  const log = logTable({ name: target });
  const numbers = figures.ids.map(String);
  const { rows: recorded } = await source.query<{ number: string }>(
    `insert into corrections._archive
       (target, ids, rows, nonces, digest, first_recorded_at, last_recorded_at, host, file, bytes, sha256, before)
     select $1, range_agg(int8range(l._id, l._id, '[]')), $2::bigint, $3::bigint, $4::numeric,
       min(l._recorded_at), max(l._recorded_at), $5, $6, $7::bigint, $8, $9::timestamptz
     from ${log} l
     where l._id = any($10::bigint[])
     returning number`,
    [
      target,
      ...[figures.rows, figures.nonces, figures.digest, host, file, figures.bytes, figures.sha256].map(
        String,
      ),
      before,
      numbers,
    ],
  );
  await source.query(
    `insert into corrections._archive_block (archive, block, rows, nonces)
     select $1::bigint, l._id / ${archiveBlockSize}, count(*), bit_xor(l._nonce)
     from ${log} l
     where l._id = any($2::bigint[])
     group by l._id / ${archiveBlockSize}`,
    [recorded[0]!.number, numbers],
  );
  const values = figures.columns.map((name) => `g.${ident(name)}`);
  const { rows: gone } = await source.query<{ rows: string; nonces: string; digest: string }>(
    `with gone as (
       delete from ${log} l where l._id = any($1::bigint[]) returning l.*
     )
     select count(*) as rows, bit_xor(g._nonce) as nonces, sum(${rowDigest(values)}) as digest from gone g`,
    [numbers],
  );
  const { rows, nonces, digest } = gone[0]!;
  if (rows === String(figures.rows) && nonces === String(figures.nonces) && digest === String(figures.digest))
    return;
  throw new EmendError(
    'invariant_broken',
    `${file} does not hold the rows that corrections.${target} has under its numbers`,
    {
      remedy: 'Nothing was taken out of the log. Say so to the maintainers, with both of them at hand.',
    },
  );
}
