/**
 * Which log rows still have to be merged or set aside, found without reading the whole log.
 *
 * The rows visible in the source at the call are compared with the store block by block of ids: count and sum of ids are
 * enough, since the store has no id that the source never had. The store is read first. Read after the source, a row that
 * came later could stand in for a missing one.
 */
import type { ClientBase, Pool } from 'pg';
import { qualified } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';

/** Ids of one block: few enough to be fetched at once where a block differs, many enough that few blocks are listed. */
const blockSize = 65_536;

interface BlockDigest {
  readonly block: string;
  readonly rows: string;
  readonly sum: string;
}

/** The `_id`s of all rows that were committed in the logs of these targets and have had no effect in the store. */
export async function missingRows(source: Pool, store: Pool, targets: readonly string[]): Promise<string[]> {
  const inStore = new Map((await storeDigests(store)).map((digest) => [digest.block, digest]));
  return withTransaction(source, async (client) => {
    await client.query('set transaction isolation level repeatable read, read only');
    const missing: string[] = [];
    for (const digest of await sourceDigests(client, targets)) {
      const same = inStore.get(digest.block);
      if (same?.rows === digest.rows && same.sum === digest.sum) continue;
      missing.push(...(await notInStore(store, await idsOfBlock(client, targets, digest.block))));
    }
    return missing;
  });
}

/** Of these ids, those that are neither in the ledger nor set aside. */
export async function notInStore(store: Pool, ids: readonly string[]): Promise<string[]> {
  const { rows } = await store.query<{ id: string }>(
    `select awaited.id
     from unnest($1::bigint[]) as awaited (id)
     where not exists (select from emend.ledger l where l._id = awaited.id)
       and not exists (select from emend.dead_letter d where d._id = awaited.id)`,
    [ids],
  );
  return rows.map((row) => row.id);
}

/** Of these ids, how many were set aside. */
export async function countSetAside(store: Pool, ids: readonly string[]): Promise<number> {
  const { rows } = await store.query<{ rows: string }>(
    `select count(*)::text as rows from emend.dead_letter_open where _id = any($1::bigint[])`,
    [ids],
  );
  return Number(rows[0]?.rows ?? 0);
}

async function storeDigests(store: Pool): Promise<BlockDigest[]> {
  const { rows } = await store.query<BlockDigest>(
    `select (_id / ${blockSize})::text as block, count(*)::text as rows, sum(_id)::text as sum
     from (
       select _id from emend.ledger
       union all
       select _id from emend.dead_letter_open
     ) as done
     where _id > 0
     group by _id / ${blockSize}`,
  );
  return rows;
}

async function sourceDigests(client: ClientBase, targets: readonly string[]): Promise<BlockDigest[]> {
  const { rows } = await client.query<BlockDigest>(
    `select (_id / ${blockSize})::text as block, count(*)::text as rows, sum(_id)::text as sum
     from (${liveRows(targets)}) as log
     group by _id / ${blockSize}
     order by _id / ${blockSize}`,
  );
  return rows;
}

async function idsOfBlock(client: ClientBase, targets: readonly string[], block: string): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    `select _id::text as id
     from (${liveRows(targets)}) as log
     where _id >= $1::bigint * ${blockSize} and _id < ($1::bigint + 1) * ${blockSize}`,
    [block],
  );
  return rows.map((row) => row.id);
}

/** Rows of a backfill have no effect until it is promoted; nobody waits for them here. */
function liveRows(targets: readonly string[]): string {
  return targets
    .map((target) => `select _id from ${qualified('corrections', target)} where _backfill is null`)
    .join('\n       union all\n       ');
}

/** The rows that one transaction of the source wrote to these logs. */
export async function rowsOfTransaction(
  source: Pool,
  targets: readonly string[],
  xid: string,
): Promise<string[]> {
  const { rows } = await source.query<{ id: string }>(
    targets
      .map(
        (target) =>
          `select _id::text as id from ${qualified('corrections', target)} where _xid = $1::xid8 and _backfill is null`,
      )
      .join('\nunion all\n'),
    [xid],
  );
  return rows.map((row) => row.id);
}

/** `in progress`, `committed`, `aborted`, or null for one so old that the server has forgotten it. */
export async function transactionStatus(source: Pool, xid: string): Promise<string | null> {
  const { rows } = await source.query<{ status: string | null }>(
    `select pg_xact_status($1::xid8) as status`,
    [xid],
  );
  return rows[0]?.status ?? null;
}
