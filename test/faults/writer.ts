import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createRandom } from '../../bench/harness/random.ts';
import type { Random } from '../../bench/harness/random.ts';
import { axes } from '../laws/run-program.ts';
import { axisEnd } from '../support/model.ts';
import type { Transaction } from './program.ts';
import { modelTargets } from './targets.ts';
import type { ModelTarget } from './targets.ts';

/** The dates of the laws' axis: 24 days, and the open ends. */
export const axis = axes[0]!;

/**
 * An application that writes, through whatever befalls its server: a transaction whose server goes is written again, and may
 * then be there twice. Returns the numbers of the rows whose commit was answered.
 */
export async function runWriter(
  url: string,
  keys: number,
  transactions: readonly Transaction[],
  deadline: number,
): Promise<bigint[]> {
  const committed: bigint[] = [];
  let client: pg.Client | undefined;
  const leave = async (): Promise<void> => {
    const left = client;
    client = undefined;
    await left?.end().catch(() => undefined);
  };
  for (const transaction of transactions) {
    for (;;) {
      try {
        client ??= await connect(url);
        const ids = await write(client, keys, transaction);
        committed.push(...ids);
        if (transaction.end === 'cut') await leave();
        break;
      } catch (error) {
        await leave();
        if (!isAway(error) || performance.now() > deadline) throw error;
        await sleep(100);
      }
    }
    await sleep(transaction.pauseMs);
  }
  await leave();
  return committed;
}

export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'writer' });
  client.on('error', () => undefined); // the next statement tells
  await client.connect();
  return client;
}

/** The server is down, goes down, comes up, or has cut us off. */
export function isAway(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return code === undefined
    ? /terminated|not queryable|ended|closed/i.test(message ?? '')
    : /^(ECONN|EPIPE|08|57P)/.test(code);
}

/** Returns the numbers of what it committed. */
async function write(client: pg.Client, keys: number, transaction: Transaction): Promise<bigint[]> {
  const random = createRandom(transaction.seed);
  await client.query('begin');
  const ids = await insertRows(client, random, keys, transaction);
  if (transaction.end === 'savepoint') {
    await client.query('savepoint a_part');
    await insertRows(client, random, keys, transaction);
    await client.query('rollback to savepoint a_part');
    ids.push(...(await insertRows(client, random, keys, { ...transaction, rows: 1 })));
  }
  await sleep(transaction.holdMs);
  if (transaction.end === 'cut') return [];
  await client.query(transaction.end === 'rollback' ? 'rollback' : 'commit');
  return transaction.end === 'rollback' ? [] : ids;
}

export async function insertRows(
  client: pg.Client,
  random: Random,
  keys: number,
  { rows, into }: Pick<Transaction, 'rows' | 'into'>,
  backfill: string | null = null,
): Promise<bigint[]> {
  const only = random.below(modelTargets.length);
  const chosen = Array.from({ length: rows }, () =>
    into === 'one' ? only : random.below(modelTargets.length),
  );
  const ids: bigint[] = [];
  for (const [place, target] of modelTargets.entries()) {
    const count = chosen.filter((each) => each === place).length;
    if (count > 0) ids.push(...(await insertInto(client, random, keys, target, count, backfill)));
  }
  return ids;
}

async function insertInto(
  client: pg.Client,
  random: Random,
  keys: number,
  { name, states, ops }: ModelTarget,
  count: number,
  backfill: string | null,
): Promise<bigint[]> {
  const rows = Array.from({ length: count }, () => {
    const op = ops[random.below(ops.length)]!;
    const from = random.below(axisEnd);
    const to = from + 1 + random.below(axisEnd - from);
    return {
      k: `k${random.below(keys)}`,
      _backfill: backfill,
      _op: op,
      v: op === 'upsert' ? [null, 'x', 'y'][random.below(3)]! : null,
      ...(states.includes('f') ? { f: axis.write(from) } : {}),
      ...(states.includes('t') ? { t: axis.write(to) } : {}),
    };
  });
  const columns = ['k', '_backfill', '_op', 'v', ...states].join(', ');
  const written = await client.query<{ id: string }>(
    `insert into corrections.${name} (${columns})
     select ${columns} from jsonb_populate_recordset(null::corrections.${name}, $1::jsonb)
     returning _id::text as id`,
    [JSON.stringify(rows)],
  );
  return written.rows.map(({ id }) => BigInt(id));
}
