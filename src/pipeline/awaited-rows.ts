/**
 * Which log rows still have to be merged or set aside.
 *
 * The sweep has compared the logs with the ledger up to its marks: only rows behind them are looked for, so the cost follows what was
 * written lately. Before it has (a store that is new, a source that is another one) all rows are compared, block by block of ids.
 */
import type { ClientBase, Pool } from 'pg';
import { qualified } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';
import { hasSameTail } from '../sweep/diverged.ts';
import { readSourceNow } from '../sweep/log-pages.ts';
import { isOfSource, readMarks } from '../sweep/marks.ts';
import type { Mark } from '../sweep/marks.ts';
import { createMainWalk } from '../sweep/walk.ts';

/** Ids of one block: few enough to be fetched at once where a block differs, many enough that few blocks are listed. */
const blockSize = 65_536;

interface BlockDigest {
  readonly block: string;
  readonly rows: string;
  readonly nonces: string;
}

export interface AwaitedRow {
  readonly id: string;
  readonly nonce: string;
}

/** All rows that were committed in the logs of these targets and have had no effect in the store. */
export async function missingRows(
  source: Pool,
  store: Pool,
  targets: readonly string[],
): Promise<AwaitedRow[]> {
  const marks = await readMarks(store, targets);
  const now = await readSourceNow(source);
  const areRaised =
    marks.length === targets.length && marks.every((mark) => isOfSource(mark, now) && mark.idsUpTo === null);
  // as the sweep does before it trusts its marks: a source that was restored may have given numbers out again
  if (areRaised && (await hasSameTail({ source, store, targets })))
    return missingBehind(source, store, marks, now.next);
  return missingAnywhere(source, store, targets);
}

/** Rows read at a time. */
const rowsOfPage = 50_000;

/** @param next what had been committed at the call is below it */
async function missingBehind(
  source: Pool,
  store: Pool,
  marks: readonly Mark[],
  next: bigint,
): Promise<AwaitedRow[]> {
  const walk = createMainWalk(marks);
  walk.extendTo(next);
  const missing: AwaitedRow[] = [];
  while (!walk.isAtEnd) {
    const rows = await walk.next(source, rowsOfPage);
    const awaited = rows.map(({ id, nonce }) => ({ id: String(id), nonce }));
    missing.push(...(await notInStore(store, awaited)));
  }
  return missing;
}

/**
 * The rows visible in the source at the call are compared by count and by the xor of their nonces: a source that was restored gives
 * ids out again, for other rows. The store is read first. Read after the source, a row that came later could stand in for a missing one.
 */
async function missingAnywhere(source: Pool, store: Pool, targets: readonly string[]): Promise<AwaitedRow[]> {
  const inStore = new Map((await storeDigests(store)).map((digest) => [digest.block, digest]));
  return withTransaction(source, async (client) => {
    await client.query('set transaction isolation level repeatable read, read only');
    const missing: AwaitedRow[] = [];
    for (const digest of await sourceDigests(client, targets)) {
      const same = inStore.get(digest.block);
      if (same?.rows === digest.rows && same.nonces === digest.nonces) continue;
      missing.push(...(await notInStore(store, await rowsOfBlock(client, targets, digest.block))));
    }
    return missing;
  });
}

/** Of these rows, those that are neither in the ledger nor set aside, nor named as diverged. */
export async function notInStore(store: Pool, awaited: readonly AwaitedRow[]): Promise<AwaitedRow[]> {
  const { rows } = await store.query<AwaitedRow>(
    `select awaited.id, awaited.nonce
     from unnest($1::bigint[], $2::bigint[]) as awaited (id, nonce)
     where not exists (select from emend.ledger_at(awaited.id) l where l._nonce = awaited.nonce)
       and not exists (
         select from emend.dead_letter d where d._id = awaited.id and (d.log_row ->> '_nonce')::bigint = awaited.nonce)
       and not exists (select from emend.diverged d where d._id = awaited.id and d._nonce = awaited.nonce)`,
    [awaited.map(({ id }) => id), awaited.map(({ nonce }) => nonce)],
  );
  return rows;
}

/** Of these rows, how many were set aside, or not merged since the store has their number of another row. */
export async function countSetAside(store: Pool, awaited: readonly AwaitedRow[]): Promise<number> {
  const { rows } = await store.query<{ rows: string }>(
    `select count(*) as rows
     from unnest($1::bigint[], $2::bigint[]) as awaited (id, nonce)
     where exists (select from emend.dead_letter_open d where d._id = awaited.id)
        or exists (select from emend.diverged d where d._id = awaited.id and d._nonce = awaited.nonce and d.resolution is null)`,
    [awaited.map(({ id }) => id), awaited.map(({ nonce }) => nonce)],
  );
  return Number(rows[0]?.rows ?? 0);
}

/** Rows of these targets that are set aside, whenever they were written. */
export async function countAllSetAside(store: Pool, targets: readonly string[]): Promise<number> {
  const { rows } = await store.query<{ rows: string }>(
    `select count(*) as rows from emend.dead_letter_open where target = any($1::text[])`,
    [targets],
  );
  return Number(rows[0]?.rows ?? 0);
}

async function storeDigests(store: Pool): Promise<BlockDigest[]> {
  const { rows } = await store.query<BlockDigest>(
    `select (from_id / ${blockSize})::text as block, sum(rows)::text as rows, bit_xor(nonces_xor)::text as nonces
     from (
       select from_id, rows, nonces_xor from emend.ledger_digest
       union all
       select _id, 1, (log_row ->> '_nonce')::bigint from emend.dead_letter_open
     ) as done
     where from_id >= 0
     group by from_id / ${blockSize}`,
  );
  return rows;
}

async function sourceDigests(client: ClientBase, targets: readonly string[]): Promise<BlockDigest[]> {
  const { rows } = await client.query<BlockDigest>(
    `select (_id / ${blockSize})::text as block, count(*)::text as rows, bit_xor(_nonce)::text as nonces
     from (${liveRows(targets)}) as log
     group by _id / ${blockSize}
     order by _id / ${blockSize}`,
  );
  return rows;
}

async function rowsOfBlock(
  client: ClientBase,
  targets: readonly string[],
  block: string,
): Promise<AwaitedRow[]> {
  const { rows } = await client.query<AwaitedRow>(
    `select _id::text as id, _nonce::text as nonce
     from (${liveRows(targets)}) as log
     where _id >= $1::bigint * ${blockSize} and _id < ($1::bigint + 1) * ${blockSize}`,
    [block],
  );
  return rows;
}

/** Rows of a backfill have no effect until it is promoted; nobody waits for them here. */
function liveRows(targets: readonly string[]): string {
  return targets
    .map((target) => `select _id, _nonce from ${qualified('corrections', target)} where _backfill is null`)
    .join('\n       union all\n       ');
}

/** The rows that one transaction of the source wrote to these logs. */
export async function rowsOfTransaction(
  source: Pool,
  targets: readonly string[],
  xid: string,
): Promise<AwaitedRow[]> {
  const { rows } = await source.query<AwaitedRow>(
    targets
      .map(
        (target) =>
          `select _id::text as id, _nonce::text as nonce from ${qualified('corrections', target)} where _xid = $1::xid8 and _backfill is null`,
      )
      .join('\nunion all\n'),
    [xid],
  );
  return rows;
}

/** `in progress`, `committed`, `aborted`, or null for one so old that the server has forgotten it. */
export async function transactionStatus(source: Pool, xid: string): Promise<string | null> {
  const { rows } = await source.query<{ status: string | null }>(
    `select pg_xact_status($1::xid8) as status`,
    [xid],
  );
  return rows[0]?.status ?? null;
}
