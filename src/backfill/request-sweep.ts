import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Log } from '../change/ports.ts';
import type { PromoteSpan } from '../config/promote-times.ts';
import { createErrorLog } from '../queue/error-log.ts';
import { removeOrphanFences } from '../merge/fence.ts';
import { mayBegin } from './advance.ts';
import type { Wish } from './state.ts';

export interface RequestSweepOptions {
  readonly source: Pool;
  readonly store: Pool;
  /** Puts requests on the queue, as the reader does. */
  readonly publish: (requests: LogRows) => Promise<void>;
  readonly log: Log;
  /** When promotes may begin. */
  readonly promoteTimes: readonly PromoteSpan[];
}

const roundMs = 5_000;

/** What committed just now is left to the stream. */
const graceMs = 3_000;

/**
 * Brings back requests whose jobs were lost (law 5), moves on backfills that stopped halfway or whose time has come, and takes
 * away the fences of processes that died. Every worker process does it: what is there already is not doubled.
 */
export function startRequestSweep(options: RequestSweepOptions): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const errors = createErrorLog(
    options.log,
    'the requests of backfills cannot be looked at; trying again',
    {},
  );
  const round = createRound(options);
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await round().catch((error: unknown) => errors.report(error));
      await sleep(roundMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  })();
  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

function createRound({ source, store, publish, promoteTimes }: RequestSweepOptions): () => Promise<void> {
  /** Every request of a transaction below it has been carried out. */
  let doneBelow = 0n;

  return async () => {
    await removeOrphanFences(store);
    const horizon = await readHorizon(source);
    if (doneBelow > horizon) doneBelow = 0n; // another source, or one that went back
    const open = await notCarriedOut(store, await readRequests(source, doneBelow));
    const due = [
      ...open.filter(({ isYoung }) => !isYoung).map(({ id }) => id),
      ...(await standingStill(store)),
      ...(await whoseTimeHasCome(store, promoteTimes)),
    ];
    if (due.length > 0) await publish(await readRows(source, due));
    if (open.length === 0) doneBelow = horizon;
  };
}

async function readHorizon(source: Pool): Promise<bigint> {
  const { rows } = await source.query<{ xmin: string }>(
    `select pg_snapshot_xmin(pg_current_snapshot())::text as xmin`,
  );
  return BigInt(rows[0]!.xmin);
}

interface Asked {
  readonly id: string;
  readonly isYoung: boolean;
}

async function readRequests(source: Pool, doneBelow: bigint): Promise<Asked[]> {
  const { rows } = await source.query<{ id: string; young: string }>(
    `select _id::text as id, (_recorded_at > clock_timestamp() - $2::int * interval '1 millisecond')::text as young
     from corrections._request
     where _xid >= $1::xid8
     order by _id`,
    [String(doneBelow), graceMs],
  );
  return rows.map(({ id, young }) => ({ id, isYoung: young === 'true' }));
}

async function notCarriedOut(store: Pool, asked: readonly Asked[]): Promise<Asked[]> {
  const { rows } = await store.query<{ id: string }>(
    `select asked.id::text as id
     from unnest($1::bigint[]) as asked (id)
     where not exists (select from emend.backfill_request r where r._id = asked.id)`,
    [asked.map(({ id }) => id)],
  );
  const open = new Set(rows.map(({ id }) => id));
  return asked.filter(({ id }) => open.has(id));
}

/** Backfills that have more to do than was done: their last request is answered once more. */
async function standingStill(store: Pool): Promise<string[]> {
  const { rows } = await store.query<{ id: string }>(
    `select (select max(r._id) from emend.backfill_request r where r.backfill = b.name)::text as id
     from emend.backfill b
     where b.state in ('sealed', 'staged') and b.updated_at < clock_timestamp() - interval '10 seconds'`,
  );
  return rows.map(({ id }) => id).filter((id) => id !== null);
}

/** Promotes that may begin, by the configuration of this process; the others say anew what they wait for. */
async function whoseTimeHasCome(store: Pool, spans: readonly PromoteSpan[]): Promise<string[]> {
  const { rows } = await store.query<{ name: string; targets: string; wish: string; id: string }>(
    `select b.name, to_jsonb(b.targets)::text as targets, b.wish::text as wish,
       (select max(r._id) from emend.backfill_request r where r.backfill = b.name)::text as id
     from emend.backfill b
     where b.state = 'checked' and b.wish is not null`,
  );
  const come: string[] = [];
  for (const { name, targets, wish, id } of rows) {
    const backfill = { name, targets: JSON.parse(targets) as string[] };
    // what is refused is refused by whoever carries it out
    const begins = await mayBegin(store, backfill, JSON.parse(wish) as Wish, spans).catch(() => true);
    if (begins) come.push(id);
  }
  return come;
}

async function readRows(source: Pool, ids: readonly string[]): Promise<LogRows> {
  const { fields, rows } = await source.query<Record<string, string | null>>(
    `select * from corrections._request where _id = any($1::bigint[]) order by _id`,
    [ids],
  );
  const columns = fields.map(({ name }) => name);
  return {
    target: '_request',
    columns,
    values: columns.map((column) => rows.map((row) => row[column] ?? null)),
  };
}
