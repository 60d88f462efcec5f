import type { ClientBase } from 'pg';
import { qualified } from '../db/identifier.ts';
import type { EmendError } from '../errors.ts';
import { readAppendColumns } from '../log/append-columns.ts';
import { describeBadRow } from './bad-row.ts';
import { runHalving } from './halving.ts';
import { insertRows } from './insert-rows.ts';
import type { RowWriting } from './row-writing.ts';
import type { HistoryImport } from './known-history.ts';
import { pieceOfRows, pieces } from './pieces.ts';
import { lineError } from './file-row.ts';
import type { FileRow } from './file-row.ts';

/**
 * Writes the rows to the log under the import's name, and for each time of knowing a request that says which ids it has.
 *
 * @throws EmendError `correction_invalid` with the line at fault
 */
export async function writeKnownHistory(client: ClientBase, work: HistoryImport): Promise<void> {
  await client.query(
    `insert into corrections._backfill (name, kind, targets, logic_version, reason)
     values ($1, 'import', array[$2], $3, 'import of known history')`,
    [work.name, work.target.name, work.digest],
  );
  let latest: bigint | null = null;
  let written = 0;
  const columns = await readAppendColumns(client, work.target.name);
  const writing = { ...work, columns, ignore: [...work.ignore, work.knownAtColumn] };
  for await (const { items } of pieces(work.rows, pieceOfRows)) {
    latest = await writeChunk(client, work, writing, items, latest);
    written += items.length;
    work.onProgress?.({ written, merged: 0 });
  }
  await client.query(
    `update corrections._backfill
     set closed_at = clock_timestamp(),
         sealed = (
           select jsonb_build_object($2::text, jsonb_build_object('rows', d.rows, 'digest', d.digest::text, 'columns', d.columns))
           from ${qualified('corrections', `_digest_${work.target.name}`)}($1) d
         )
     where name = $1`,
    [work.name, work.target.name],
  );
  await client.query(
    `insert into corrections._request (backfill, request) values ($1, 'seal'), ($1, 'promote')`,
    [work.name],
  );
}

/** Writes rows to the log, and for each time among them which ids it has. Returns the last time, µs since 1970. */
async function writeChunk(
  client: ClientBase,
  work: HistoryImport,
  writing: RowWriting,
  chunk: readonly FileRow[],
  latest: bigint | null,
): Promise<bigint> {
  const times = await readTimes(client, work, chunk, latest);
  const ids = await insertRows(client, writing, chunk, ({ line }, bad) => {
    throw invalid(work, bad.line ?? line, describeBadRow(bad));
  });
  const runs: { knownAt: string; first: string; last: string; rows: number }[] = [];
  ids.forEach((id, place) => {
    const { text } = times[place]!;
    const run = runs.at(-1);
    if (run?.knownAt === text) runs[runs.length - 1] = { ...run, last: id, rows: run.rows + 1 };
    else runs.push({ knownAt: text, first: id, last: id, rows: 1 });
  });
  await client.query(
    `insert into corrections._request (backfill, request, details)
     select $1, 'chunk',
       jsonb_build_object('target', $2::text, 'known_at', run.known_at, 'first', run.first, 'last', run.last, 'rows', run.rows)
     from unnest($3::text[], $4::text[], $5::text[], $6::bigint[]) with ordinality as run (known_at, first, last, rows, place)
     order by run.place`,
    [
      work.name,
      work.target.name,
      runs.map((run) => run.knownAt),
      runs.map((run) => run.first),
      runs.map((run) => run.last),
      runs.map((run) => run.rows),
    ],
  );
  return times.at(-1)!.micros;
}

/** The times of knowing, as Postgres reads them; each is past, and is the one before or a later one. */
async function readTimes(
  client: ClientBase,
  work: HistoryImport,
  chunk: readonly FileRow[],
  latest: bigint | null,
): Promise<{ text: string; micros: bigint }[]> {
  const { knownAtColumn } = work;
  const texts = chunk.map(({ line, values }) => {
    const text = values[knownAtColumn];
    if (text === null || text === undefined) throw invalid(work, line, `it has no ${knownAtColumn}`);
    return text;
  });
  const times = await runHalving(
    client,
    texts.map((text, place) => ({ text, line: chunk[place]!.line })),
    async (part) => {
      const { rows } = await client.query<{ text: string; micros: string; is_past: string }>(
        `select known.at::timestamptz::text as text, (extract(epoch from known.at::timestamptz) * 1000000)::bigint::text as micros,
                (known.at::timestamptz < clock_timestamp())::text as is_past
         from unnest($1::text[]) with ordinality as known (at, place)
         order by known.place`,
        [part.map(({ text }) => text)],
      );
      return rows;
    },
    ({ line }) => {
      throw invalid(work, line, `its ${knownAtColumn} is no time`);
    },
  );
  let before = latest;
  return times.map((row, place) => {
    const micros = BigInt(row.micros);
    // taken, it would put off the time of belief of everything that is told until then
    if (row.is_past !== 'true')
      throw invalid(work, chunk[place]!.line, `its ${knownAtColumn} is not in the past`);
    if (before !== null && micros < before) {
      throw invalid(
        work,
        chunk[place]!.line,
        `its ${knownAtColumn} is earlier than the one before it; history is imported in the order in which it was known`,
      );
    }
    before = micros;
    return { text: row.text, micros };
  });
}

function invalid({ file }: HistoryImport, line: number, what: string): EmendError {
  return lineError({ path: file, remedy: 'Mend the line; nothing of the file has been taken.' }, line, what);
}
