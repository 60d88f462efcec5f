import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Random } from '../../bench/harness/random.ts';

export interface Loaded {
  /** Corrections and transactions whose commit was answered. */
  rows: number;
  transactions: number;
  promoted: number;
  reverted: number;
}

interface Load {
  readonly sourceUrl: string;
  readonly random: Random;
  readonly signal: AbortSignal;
  readonly loaded: Loaded;
}

/** Few enough keys and days that the targets are full after a minute: what grows then is no target. */
const keys = 300;
const days = 24;

const rowPauseMs = 50;
const thousandEveryMs = 8_000;
const backfillEveryMs = 20_000;
const rowsOfBackfill = 500;

/** Rows of one target, made by the server. A seventh of them retracts. */
const rowsOf = {
  f: `(k, v, _op, _backfill)
      select r.k, case when r.op = 'upsert' then md5(random()::text) end, r.op, $2`,
  o: `(k, f, t, v, _op, _backfill)
      select r.k, date '2020-01-01' + r.day, date '2020-01-01' + r.day + 1 + (random() * 5)::integer,
             case when r.op = 'upsert' then md5(random()::text) end, r.op, $2`,
  u: `(k, f, v, _op, _backfill)
      select r.k, date '2020-01-01' + r.day, case when r.op = 'upsert' then md5(random()::text) end, r.op, $2`,
};

type TargetName = keyof typeof rowsOf;
const names = Object.keys(rowsOf) as TargetName[];

async function insert(
  client: pg.ClientBase,
  target: TargetName,
  rows: number,
  backfill: string | null = null,
): Promise<void> {
  await client.query(
    `insert into corrections.${target} ${rowsOf[target]}
     from (
       select 'k' || (random() * ${keys})::integer as k, (random() * ${days})::integer as day,
              case when random() < 0.14 then 'retract' else 'upsert' end as op
       from generate_series(1, $1)
     ) as r`,
    [rows, backfill],
  );
}

/** Single rows, transactions of a thousand, and a backfill now and then that is promoted, and every other time reverted. */
export async function runLoad(load: Load): Promise<void> {
  await Promise.all([singleRows(load), thousands(load), backfills(load)]);
}

async function singleRows(load: Load): Promise<void> {
  while (!load.signal.aborted) {
    const target = names[load.random.below(names.length)]!;
    await commit(load, 1, (client) => insert(client, target, 1));
    await rest(load, rowPauseMs);
  }
}

async function thousands(load: Load): Promise<void> {
  while (!load.signal.aborted) {
    await commit(load, 999, async (client) => {
      for (const target of names) await insert(client, target, 333);
    });
    await rest(load, thousandEveryMs);
  }
}

async function backfills(load: Load): Promise<void> {
  const accept = JSON.stringify(
    Object.fromEntries(
      ['contradictions', 'answers_lost_from_now_on', 'null_share:v'].map((check) => [check, 'soak']),
    ),
  );
  for (let turn = 0; !load.signal.aborted; turn += 1) {
    const name = `soak-${turn}`;
    await commit(load, 0, (client) =>
      client.query(`select corrections.open_backfill($1, $2, 'soak', 'v1')`, [name, names]),
    );
    await commit(load, rowsOfBackfill * names.length, async (client) => {
      for (const target of names) await insert(client, target, rowsOfBackfill, name);
    });
    await commit(load, 0, (client) => client.query(`select corrections.seal_backfill($1)`, [name]));
    await commit(load, 0, (client) =>
      client.query(`select corrections.promote_backfill($1, 'soak', $2)`, [name, accept]),
    );
    load.loaded.promoted += 1;
    await rest(load, backfillEveryMs);
    if (turn % 2 === 0) continue;
    await commit(load, 0, (client) => client.query(`select corrections.revert_backfill($1, 'soak')`, [name]));
    load.loaded.reverted += 1;
  }
}

/** A transaction on a connection of its own, as often as it takes: the faults are those of others. */
async function commit(
  load: Load,
  rows: number,
  body: (client: pg.Client) => Promise<unknown>,
): Promise<void> {
  for (;;) {
    const client = new pg.Client({ connectionString: load.sourceUrl, application_name: 'soak load' });
    client.on('error', () => undefined); // the next statement tells
    try {
      await client.connect();
      await client.query('begin');
      await body(client);
      await client.query('commit');
      load.loaded.rows += rows;
      load.loaded.transactions += 1;
      return;
    } catch (error) {
      const code = (error as { code?: string }).code ?? '57P01';
      if (!/^(ECONN|EPIPE|08|57P)/.test(code)) throw error;
      await sleep(200);
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}

async function rest({ signal }: Load, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
