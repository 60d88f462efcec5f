import type { ClientBase } from 'pg';
import { statedColumns } from '../change/target.ts';
import { ident, identList, qualified } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import type { HistoryImport } from './known-history.ts';
import type { FileRow } from './read-rows.ts';

const rowsAtATime = 5_000;

/**
 * Writes the rows to the log under the import's name, and for each time of knowing a request that says which ids it has.
 *
 * @throws EmendError `correction_invalid` with the line at fault
 */
export async function writeKnownHistory(client: ClientBase, work: HistoryImport): Promise<void> {
  await client.query(
    `insert into corrections._backfill (name, target, logic_version, reason) values ($1, $2, $3, 'import of known history')`,
    [work.name, work.target.name, work.digest],
  );
  let latest: bigint | null = null;
  let written = 0;
  for await (const chunk of chunks(work.rows, rowsAtATime)) {
    latest = await writeChunk(client, work, chunk, latest);
    written += chunk.length;
    work.onProgress?.({ written, merged: 0 });
  }
  await client.query(
    `update corrections._backfill set closed_at = clock_timestamp(), rows = $2 where name = $1`,
    [work.name, written],
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
  chunk: readonly FileRow[],
  latest: bigint | null,
): Promise<bigint> {
  const times = await readTimes(client, work, chunk, latest);
  const ids = await insertRows(client, work, chunk);
  const runs: { knownAt: string; first: string; last: string }[] = [];
  ids.forEach((id, place) => {
    const { text } = times[place]!;
    const run = runs.at(-1);
    if (run?.knownAt === text) runs[runs.length - 1] = { ...run, last: id };
    else runs.push({ knownAt: text, first: id, last: id });
  });
  await client.query(
    `insert into corrections._request (backfill, request, details)
     select $1, 'chunk', jsonb_build_object('known_at', run.known_at, 'first', run.first, 'last', run.last)
     from unnest($2::text[], $3::text[], $4::text[]) with ordinality as run (known_at, first, last, place)
     order by run.place`,
    [work.name, runs.map((run) => run.knownAt), runs.map((run) => run.first), runs.map((run) => run.last)],
  );
  return times.at(-1)!.micros;
}

/** The times of knowing, as Postgres reads them; each is the one before or a later one. */
async function readTimes(
  client: ClientBase,
  { knownAtColumn }: HistoryImport,
  chunk: readonly FileRow[],
  latest: bigint | null,
): Promise<{ text: string; micros: bigint }[]> {
  const texts = chunk.map(({ line, values }) => {
    const text = values[knownAtColumn];
    if (text === null || text === undefined) throw invalid(line, `it has no ${knownAtColumn}`);
    return text;
  });
  const { rows } = await atFault(chunk, (from, to) =>
    client.query<{ text: string; micros: string }>(
      `select known.at::timestamptz::text as text, (extract(epoch from known.at::timestamptz) * 1000000)::bigint::text as micros
       from unnest($1::text[]) with ordinality as known (at, place)
       order by known.place`,
      [texts.slice(from, to)],
    ),
  )(client);
  let before = latest;
  return rows.map((row, place) => {
    const micros = BigInt(row.micros);
    if (before !== null && micros < before) {
      throw invalid(
        chunk[place]!.line,
        `its ${knownAtColumn} is earlier than the one before it; history is imported in the order in which it was known`,
      );
    }
    before = micros;
    return { text: row.text, micros };
  });
}

async function insertRows(
  client: ClientBase,
  work: HistoryImport,
  chunk: readonly FileRow[],
): Promise<string[]> {
  const stated = statedColumns(work.target);
  for (const { line, values } of chunk) refuseUnknown(work, line, values);
  const columns = stated.filter(({ name }) => chunk.some(({ values }) => name in values));
  const names = [...columns.map(({ name }) => name), '_op', '_reason'];
  const casts = [
    ...columns.map(({ name, baseType }) => `r.${ident(name)}::${baseType}`),
    `coalesce(r._op, 'upsert')`,
    'r._reason',
  ];
  const texts = names.map((name) => chunk.map(({ values }) => textOf(work, name, values)));
  const sql = `
    insert into ${qualified('corrections', work.target.name)} (${identList(names)}, _backfill)
    select ${casts.join(', ')}, $1
    from unnest(${texts.map((_, index) => `$${index + 2}::text[]`).join(', ')}) with ordinality as r (${identList(names)}, place)
    order by r.place
    returning _id::text as id`;
  const { rows } = await atFault(chunk, (from, to) =>
    client.query<{ id: string }>(sql, [work.name, ...texts.map((column) => column.slice(from, to))]),
  )(client);
  return rows.map((row) => row.id);
}

function textOf(
  { target, openStart }: HistoryImport,
  name: string,
  values: FileRow['values'],
): string | null {
  const text = values[name] ?? null;
  if (text !== null) return text;
  if (name === '_op') return values['op'] ?? null;
  const isStart = target.kind === 'timeline' && name === target.period.from.name;
  return isStart && openStart === true ? '-infinity' : null;
}

const ownFields = ['op', '_op', '_reason'];

function refuseUnknown(
  { target, knownAtColumn, ignore }: HistoryImport,
  line: number,
  values: FileRow['values'],
): void {
  const known = new Set([
    ...statedColumns(target).map(({ name }) => name),
    ...ownFields,
    knownAtColumn,
    ...ignore,
  ]);
  const unknown = Object.keys(values).find((name) => !known.has(name));
  if (unknown !== undefined) {
    throw invalid(
      line,
      `${target.name} has no column ${ident(unknown)} (to leave it out: --ignore ${unknown})`,
    );
  }
}

/**
 * Runs a statement over a chunk; when a row is at fault, finds the first one by halving, inside savepoints, and says its line.
 */
function atFault<T>(
  chunk: readonly FileRow[],
  run: (from: number, to: number) => Promise<T>,
): (client: ClientBase) => Promise<T> {
  return async (client) => {
    await client.query('savepoint chunk');
    try {
      return await run(0, chunk.length);
    } catch (error) {
      if (!/^(22|23)/.test(sqlState(error) ?? '')) throw error;
      let [good, bad, reason] = [0, chunk.length, error as Error];
      while (bad - good > 1) {
        const middle = Math.floor((good + bad) / 2);
        await client.query('rollback to savepoint chunk');
        try {
          await run(good, middle);
          good = middle;
        } catch (inHalf) {
          [bad, reason] = [middle, inHalf as Error];
        }
      }
      throw invalid(chunk[good]!.line, reason.message, error);
    }
  };
}

function invalid(line: number, what: string, cause?: unknown): EmendError {
  return new EmendError('correction_invalid', `line ${line}: ${what}`, {
    remedy: 'Mend the line; nothing of the file has been taken.',
    ...(cause === undefined ? {} : { cause }),
  });
}

async function* chunks<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let chunk: T[] = [];
  for await (const item of items) {
    chunk.push(item);
    if (chunk.length < size) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}
