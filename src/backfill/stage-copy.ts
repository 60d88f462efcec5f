import { pipeline } from 'node:stream/promises';
import type { Pool, PoolClient } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';

import { ident, literal } from '../db/identifier.ts';
import { sqlState, verdictOf } from '../db/sqlstate.ts';
import { withClient, withTransaction } from '../db/transaction.ts';
import { logTable } from '../log/log-columns.ts';
import { arrivingNames, stageTextsSql } from '../merge/arrived.ts';
import { ownObject } from '../store/names.ts';
import { readBackfillRows, stageRows } from './stage.ts';
import type { LogStretch } from './stage.ts';

/** Rows of one transaction of the store. */
const rowsAtATime = 20_000;

const texts = 'pg_temp.emend_arriving';

/**
 * Stages rows of a backfill from the log, which stay there: COPY from one server to the other, so that no value passes through
 * this process but as bytes (law 9), and one statement that casts and digests them. Where it fails on a row, its stretch is
 * staged by `stageRows`, which finds the row (law 8).
 *
 * @param digested columns that are in the digest; default: those that the target has now
 */
export async function stageFromLog(
  servers: { readonly source: Pool; readonly store: Pool },
  stretch: LogStretch,
  digested?: readonly string[],
): Promise<void> {
  for await (const part of partsOf(servers.source, stretch)) {
    try {
      await copyPart(servers, part, digested);
    } catch (error) {
      if (verdictOf(error) !== 'halve' && !isWithoutTemporary(error)) throw error;
      for await (const rows of readBackfillRows(servers.source, part))
        await stageRows(servers.store, part.target, rows, digested);
    }
  }
}

/** The store may deny temporary tables (`revoke temporary on database`). */
function isWithoutTemporary(error: unknown): boolean {
  return sqlState(error) === '42501';
}

/** Cuts a stretch by rows, whatever the numbers between them are. What is known to be small enough is not counted. */
async function* partsOf(source: Pool, stretch: LogStretch): AsyncGenerator<LogStretch> {
  const { backfill, target, last, rows: known = Infinity } = stretch;
  if (known <= rowsAtATime) return yield stretch;
  for (let { first } = stretch; ;) {
    const { rows } = await source.query<{ rows: string; last: string | null }>(
      `select count(*) as rows, max(part._id) as last
       from (
         select l._id
         from ${logTable(target)} l
         where l._backfill = $1 and l._id between $2::bigint and $3::bigint
         order by l._id
         limit ${rowsAtATime}
       ) as part`,
      [backfill, first, last],
    );
    const { rows: count, last: reached } = rows[0]!;
    if (reached === null) return;
    yield { ...stretch, first, last: reached };
    if (Number(count) < rowsAtATime) return;
    first = String(BigInt(reached) + 1n);
  }
}

async function copyPart(
  { source, store }: { readonly source: Pool; readonly store: Pool },
  part: LogStretch,
  digested?: readonly string[],
): Promise<void> {
  const { backfill, target } = part;
  const recordedAt = await readRecordedAt(source, part);
  await withTransaction(store, async (client) => {
    const columns = arrivingNames(target).map((name) => `${ident(name)} text`);
    await client.query(`create temporary table emend_arriving (${columns.join(', ')}) on commit drop`);
    await withClient(source, (reader) =>
      pipeline(
        reader.query(copyTo(logSql(part, recordedAt))),
        client.query(copyFrom(`copy ${texts} from stdin`)),
      ),
    );
    // law 6: who stages the same rows meanwhile makes this fail, and the rows are staged one way or the other
    const conflict = (await isBegun(client, part)) ? 'on conflict (_id) do nothing' : '';
    await client.query(stageTextsSql(target, texts, conflict, digested), [backfill, recordedAt]);
  });
}

/** When the first of the rows was recorded, and so most of them: those of one transaction. */
async function readRecordedAt(
  source: Pool,
  { backfill, target, first, last }: LogStretch,
): Promise<string | null> {
  const { rows } = await source.query<{ recorded_at: string }>(
    `select l._recorded_at as recorded_at
     from ${logTable(target)} l
     where l._backfill = $1 and l._id between $2::bigint and $3::bigint
     order by l._id
     limit 1`,
    [backfill, first, last],
  );
  return rows[0]?.recorded_at ?? null;
}

/** COPY takes no parameters; numbers are cast in place. What most rows share is not written for each of them. */
function logSql({ backfill, target, first, last }: LogStretch, recordedAt: string | null): string {
  const recorded = recordedAt === null ? 'null' : literal(recordedAt);
  const shared = new Map([
    ['_backfill', 'null'],
    ['_recorded_at', `nullif(_recorded_at, ${recorded}::timestamptz)`],
  ]);
  const columns = arrivingNames(target).map((name) => shared.get(name) ?? ident(name));
  return `copy (
    select ${columns.join(', ')}
    from ${logTable(target)}
    where _backfill = ${literal(backfill)} and _id between ${literal(first)}::bigint and ${literal(last)}::bigint
  ) to stdout`;
}

/** Whether some of the rows are staged: to leave them out costs a third of the statement, and they seldom are. */
async function isBegun(client: PoolClient, { target, first, last }: LogStretch): Promise<boolean> {
  const { rows } = await client.query<{ begun: string }>(
    `select exists (
       select from ${ownObject(target, 'staged')} s where s._id between $1::bigint and $2::bigint
     )::text as begun`,
    [first, last],
  );
  return rows[0]?.begun === 'true';
}
