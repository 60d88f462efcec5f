import type { Pool } from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { withTransaction } from '../../src/db/transaction.ts';
import { correct, retract } from '../../src/log/append.ts';
import { rekey } from '../../src/log/rekey.ts';
import { createMerge } from '../../src/merge/merge.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { batchOf, logRows, noAbort, silentLog } from '../support/store.ts';
import type { TestRow } from '../support/store.ts';

const { targets } = defineConfig({
  targets: {
    orders: facts('public.orders', {
      key: ['order_id', 'event_time', 'source_system'],
      eventTime: 'event_time',
    }),
    revised: facts('public.revised', { key: ['id'], version: 'revision' }),
    totals: facts('public.totals', { key: ['id'] }),
    rates: timeline('public.rates', { key: ['id'], period: ['valid_from', 'valid_to'] }),
    homes: timeline('public.homes', { key: ['person'], period: ['valid_from'] }),
  },
});

let install: Install;
let source: Pool;
let store: Pool;

beforeAll(async () => {
  install = await createInstall('facts', {
    ddl: `
      create table public.orders (
        order_id integer, event_time timestamptz, source_system text, amount numeric not null,
        primary key (order_id, event_time, source_system)
      );
      create table public.revised (id integer not null, revision integer not null, state text);
      create table public.totals (id integer not null, n integer);
      create table public.rates (id integer not null, valid_from date not null, valid_to date not null, n integer);
      create table public.homes (person text not null, valid_from date not null, valid_to date not null, city text)`,
    targets,
  });
  ({ source, store } = install);
  await install.start();
});

async function rowsOf(sql: string): Promise<Record<string, string | null>[]> {
  return (await store.query<Record<string, string | null>>(sql)).rows;
}

describe('the same backfill twice', () => {
  const backfill = `
    insert into corrections.orders (order_id, event_time, source_system, amount)
    select n, timestamptz '2026-01-01 00:00:00+00' + n * interval '1 hour', 'shop', n * 1.10
    from generate_series(1, 500) n`;
  const believed = () =>
    rowsOf(
      'select order_id, event_time, source_system, amount::text as amount from public.orders order by 1',
    );
  /** All that a merge may write, but for the rows of the clock. */
  const tables = [
    'public.orders',
    'orders_history',
    'orders_shadow',
    'orders_tombstone',
    'ledger',
    'merge',
    'dead_letter',
  ];
  const everything = () =>
    Promise.all(
      tables.map((table) =>
        rowsOf(
          `select x::text as x from ${table.includes('.') ? table : `emend.${table}`} x order by x::text`,
        ),
      ),
    );

  it('delivered again, whole or in part, shuffled or doubled, leaves no trace: no row, no history, no shadow, no _known_from', async () => {
    await source.query(backfill);
    await install.wait();
    const before = await everything();
    expect(before[0]).toHaveLength(500);
    const { rows } = await source.query<TestRow>('select * from corrections.orders order by random()');
    const target = install.targets.find(({ name }) => name === 'orders')!;
    const handle = await createMerge({ pool: store, targets: install.targets, log: silentLog });
    for (const part of [rows, rows.slice(0, 7), [...rows.slice(3, 9), ...rows.slice(3, 9)]])
      await handle(batchOf(logRows(target, part)), noAbort);
    expect(await everything()).toEqual(before);
  });

  it('written again, changes nothing of what is believed, and each row is still there once', async () => {
    const before = await believed();
    await source.query(backfill);
    await install.wait();
    expect(await believed()).toEqual(before);
    const [counts] = await rowsOf(
      `select (select count(*) from public.orders) as rows, (select count(*) from emend.ledger where target = 'orders') as told`,
    );
    expect(counts).toEqual({ rows: '500', told: '1000' });
  });
});

describe('a version of one’s own', () => {
  const state = async (id: number) =>
    (await rowsOf(`select revision, state from public.revised where id = ${id}`)).map((row) =>
      Object.values(row),
    );
  const write = async (
    id: number,
    ...steps: readonly (readonly [revision: number, state: string | null])[]
  ) => {
    for (const [revision, value] of steps) {
      await (value === null
        ? retract(source, targets.revised, { id, revision })
        : correct(source, targets.revised, { id, revision, state: value }));
      await install.wait();
    }
  };

  it('a lower revision that comes late changes nothing, and is kept', async () => {
    await write(1, [10, 'ten'], [9, 'nine']);
    expect(await state(1)).toEqual([['10', 'ten']]);
    expect(await rowsOf('select * from emend.revised_history where id = 1')).toEqual([]);
    expect(await rowsOf('select revision, state, _op from emend.revised_shadow where id = 1')).toEqual([
      { revision: '9', state: 'nine', _op: 'upsert' },
    ]);
  });

  it('of equal revisions the later one wins', async () => {
    await write(2, [10, 'first'], [10, 'second']);
    expect(await state(2)).toEqual([['10', 'second']]);
    await write(2, [10, null]);
    expect(await state(2)).toEqual([]);
  });

  it('a late retraction obeys its revision', async () => {
    await write(3, [10, 'ten'], [9, null]);
    expect(await state(3)).toEqual([['10', 'ten']]);
    await write(3, [11, null]);
    expect(await state(3)).toEqual([]);
  });

  it('a late, lower upsert does not bring a retracted key back, and a higher one does', async () => {
    await write(4, [10, 'ten'], [12, null], [11, 'eleven']);
    expect(await state(4)).toEqual([]);
    await write(4, [13, 'thirteen']);
    expect(await state(4)).toEqual([['13', 'thirteen']]);
  });
});

it('a transaction that commits after a later retraction does not bring its key back', async () => {
  const slow = await source.connect();
  try {
    await slow.query('begin');
    await correct(slow, targets.totals, { id: 100, n: 1 });
    await retract(source, targets.totals, { id: 100 });
    await install.wait();
    await slow.query('commit');
  } finally {
    slow.release();
  }
  await install.wait();
  expect(await rowsOf('select * from public.totals where id = 100')).toEqual([]);
  expect(await rowsOf('select n, _op from emend.totals_shadow where id = 100')).toEqual([
    { n: '1', _op: 'upsert' },
  ]);
});

describe('atomic where the writer was', () => {
  /** Asks again and again while `write` runs, and until all of it is merged. */
  async function watch(sql: string, write: () => Promise<void>): Promise<string[]> {
    const seen: string[] = [];
    const writing = write().then(() => install.wait());
    let done = false;
    void writing.then(
      () => (done = true),
      () => (done = true),
    );
    while (!done) seen.push(JSON.stringify(await rowsOf(sql)));
    await writing;
    return seen;
  }

  it('a reader sees the rows of a transaction in both targets, or in neither', async () => {
    const seen = await watch(
      `select (select array_agg(n order by id) from public.totals where id in (1, 2)) as totals,
              (select array_agg(n order by valid_from) from public.rates where id = 1) as rates`,
      async () => {
        for (let n = 1; n <= 150; n++) {
          await withTransaction(source, async (tx) => {
            await correct(tx, targets.totals, { id: 1, n });
            await correct(tx, targets.rates, { id: 1, valid_from: '2026-01-01', n });
            await correct(tx, targets.totals, { id: 2, n });
          });
        }
      },
    );
    const answers = [...new Set(seen)];
    expect(answers.length).toBeGreaterThan(3); // the reader was there while it happened
    for (const answer of answers) {
      const [{ totals, rates }] = JSON.parse(answer) as [{ totals: string | null; rates: string | null }];
      const n = rates?.slice(1, -1);
      expect(totals).toBe(n === undefined ? null : `{${n},${n}}`);
    }
  });

  it('rekey() moves a fact and its rates from key to key, and no reader ever misses or doubles them', async () => {
    const ids = (n: number) => ({ old: 1000 + n, now: 1001 + n });
    await correct(source, targets.totals, { id: 1000, n: 0 });
    await correct(source, targets.rates, { id: 1000, valid_from: '2026-01-01', n: 0 });
    await install.wait();
    const seen = await watch(
      `select (select array_agg(id) from public.totals where id >= 1000) as totals,
              (select array_agg(id) from public.rates where id >= 1000) as rates`,
      async () => {
        for (let step = 0; step < 30; step++) {
          const { old, now } = ids(step);
          await withTransaction(source, async (tx) => {
            await rekey(
              tx,
              targets.totals,
              { from: { id: old }, to: { id: now, n: step } },
              { reason: 'renumbered' },
            );
            await rekey(tx, targets.rates, {
              from: { id: old, valid_from: '-infinity' },
              to: { id: now, valid_from: '2026-01-01', n: step },
            });
          });
          // transactions that follow at once may be told in another order than they committed in
          await install.wait();
        }
      },
    );
    const answers = [...new Set(seen)];
    expect(answers.length).toBeGreaterThan(3);
    for (const answer of answers) expect(answer).toMatch(/^\[\{"totals":"\{(\d+)\}","rates":"\{\1\}"\}\]$/);
    expect(await rowsOf('select id, n from public.totals where id >= 1000')).toEqual([
      { id: '1030', n: '29' },
    ]);
  });
});

describe('rekey()', () => {
  it('withdraws the starts of the old key where each holds until the next', async () => {
    await correct(source, targets.homes, [
      { person: 'alise', valid_from: '2026-01-01', city: 'New York' },
      { person: 'alise', valid_from: '2026-03-01', city: 'Austin' },
    ]);
    await withTransaction(source, (tx) =>
      rekey(tx, targets.homes, {
        from: [
          { person: 'alise', valid_from: '2026-01-01' },
          { person: 'alise', valid_from: '2026-03-01' },
        ],
        to: { person: 'alice', valid_from: '2026-01-01', city: 'New York' },
      }),
    );
    await install.wait();
    expect(await rowsOf('select person, valid_from, valid_to, city from public.homes')).toEqual([
      { person: 'alice', valid_from: '2026-01-01', valid_to: 'infinity', city: 'New York' },
    ]);
  });

  it('writes nothing outside a transaction, where a reader could see both keys or none', async () => {
    const change = { from: { id: 1 }, to: { id: 5000, n: 1 } };
    await expect(rekey(source, targets.totals, change)).rejects.toMatchObject({
      code: 'correction_invalid',
      message: 'rekey() was called outside a transaction',
    });
    const { rows } = await source.query('select from corrections.totals where id = 5000');
    expect(rows).toEqual([]);
  });

  it('with a list that is empty is refused, instead of half of it being written', async () => {
    const half = { from: [], to: { id: 5000, n: 1 } };
    for (const change of [half, { from: half.to, to: half.from }]) {
      await expect(withTransaction(source, (tx) => rekey(tx, targets.totals, change))).rejects.toMatchObject({
        code: 'correction_invalid',
        message: expect.stringMatching(/^rekey\(\) has no row in (from|to)$/),
      });
    }
  });
});
