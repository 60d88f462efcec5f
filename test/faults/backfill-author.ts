import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { createRandom } from '../../bench/harness/random.ts';
import type { BackfillPlan } from './program.ts';
import { modelTargets } from './targets.ts';
import { connect, insertRows, isAway } from './writer.ts';

interface Servers {
  readonly sourceUrl: string;
  readonly storeUrl: string;
}

export function nameOf(backfill: number): string {
  return `b${backfill}`;
}

/** Every check that random rows may fail; that pieces never overlap is not among them. */
const accept = JSON.stringify(
  Object.fromEntries(
    ['contradictions', 'answers_lost_from_now_on', 'null_share:v'].map((check) => [check, 'random']),
  ),
);

const states = ['open', 'sealed', 'staged', 'checked', 'promoted', 'reverted', 'abandoned'];

/**
 * Somebody who opens, loads and decides on a backfill by the functions of the source, through whatever befalls the servers: a
 * step of which no answer came is done again, and what it loaded may then be there twice. Returns the numbers that were answered.
 */
export async function writeBackfill(
  { sourceUrl, storeUrl }: Servers,
  keys: number,
  backfill: number,
  { startMs, parts, fate, pausesMs, isPatient }: BackfillPlan,
  deadline: number,
): Promise<bigint[]> {
  const name = nameOf(backfill);
  const ids: bigint[] = [];
  const step = <T>(body: (client: pg.Client) => Promise<T>): Promise<T> => insist(sourceUrl, deadline, body);
  const ask = (sql: string, ...values: unknown[]): Promise<unknown> =>
    step((client) => client.query(sql, [name, ...values]));
  const reached = async (state: string): Promise<void> => {
    if (isPatient) await untilReached(storeUrl, name, state, deadline);
  };

  await sleep(startMs);
  await ask(
    `select corrections.open_backfill($1, $2, 'faults', 'v1')`,
    modelTargets.map((target) => target.name),
  );
  for (const { seed, rows, isChunked } of parts) {
    ids.push(
      ...(await step((client) => insertRows(client, createRandom(seed), keys, { rows, into: 'all' }, name))),
    );
    for (const target of isChunked ? modelTargets : [])
      await ask(`select corrections.chunk_backfill($1, $2)`, target.name);
  }
  if (fate === 'open') return ids;
  await sleep(pausesMs[0]);
  await ask(`select corrections.seal_backfill($1)`);
  if (fate === 'sealed') return ids;
  await reached('checked');
  await sleep(pausesMs[1]);
  if (fate !== 'abandoned') await ask(`select corrections.promote_backfill($1, 'faults', $2)`, accept);
  if (fate === 'promoted') return ids;
  if (fate === 'reverted') await reached('promoted');
  await sleep(pausesMs[2]);
  await ask(`select corrections.${fate === 'reverted' ? 'revert' : 'abandon'}_backfill($1, 'faults')`);
  return ids;
}

/** In a transaction, on a connection of its own. */
async function insist<T>(url: string, deadline: number, body: (client: pg.Client) => Promise<T>): Promise<T> {
  for (;;) {
    let client: pg.Client | undefined;
    try {
      client = await connect(url);
      await client.query('begin');
      const result = await body(client);
      await client.query('commit');
      return result;
    } catch (error) {
      if (!isAway(error) || performance.now() > deadline) throw error;
      await sleep(100);
    } finally {
      await client?.end().catch(() => undefined);
    }
  }
}

/** Or until the deadline: what it came to is compared in the end. */
async function untilReached(storeUrl: string, name: string, state: string, deadline: number): Promise<void> {
  while (performance.now() < deadline) {
    const now = await readState(storeUrl, name).catch(() => undefined); // the store is away
    if (now !== undefined && states.indexOf(now) >= states.indexOf(state)) return;
    await sleep(100);
  }
}

async function readState(storeUrl: string, name: string): Promise<string | undefined> {
  const client = await connect(storeUrl);
  try {
    const sql = `select state from emend.backfill where name = $1`;
    return (await client.query<{ state: string }>(sql, [name])).rows[0]?.state;
  } finally {
    await client.end().catch(() => undefined);
  }
}
