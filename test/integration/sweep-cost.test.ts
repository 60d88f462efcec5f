import type { Pool } from 'pg';
import { expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import { createSweep } from '../support/sweep.ts';

const ddl = `create table public.orders (id integer primary key, amount integer not null)`;
const targets = { orders: facts('public.orders', { key: ['id'] }) };
const merged = 1_000_000;

interface Reads {
  readonly scans: number;
  readonly rows: number;
  readonly wholeScans: number;
}

/** What the server has counted of reads of a table. */
async function readsOf(database: Pool, table: string): Promise<Reads> {
  const { rows } = await database.query<{ scans: string; rows: string; whole: string }>(
    `select (select sum(idx_scan) from pg_stat_user_indexes where relid = $1::regclass)::text as scans,
            (select sum(idx_tup_read) from pg_stat_user_indexes where relid = $1::regclass)::text as rows,
            (select seq_scan from pg_stat_user_tables where relid = $1::regclass)::text as whole`,
    [table],
  );
  const [counted] = rows;
  return { scans: Number(counted!.scans), rows: Number(counted!.rows), wholeScans: Number(counted!.whole) };
}

it('a round reads what is new, and not the million rows that are merged', async () => {
  const { source, store, ...install } = await createInstall('sweep cost', { ddl, targets });
  await source.query(
    `insert into corrections.orders (id, amount, _nonce) select i, i, i from generate_series(1, ${merged}) as i`,
  );
  await store.query(
    `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at)
     select i, 'orders', now(), i, now() from generate_series(1, ${merged}) as i`,
  );
  for (const [database, table] of [
    [source, 'corrections.orders'],
    [store, 'emend.ledger_recent'],
  ] as const)
    await database.query(`vacuum analyze ${table}`);

  const first = await createSweep({ source, store, ...install });
  let compared = 0;
  await eventually(
    async () => {
      const round = await first.tick();
      compared += round?.compared ?? 0;
      expect(round).toMatchObject({ isComplete: true, missing: 0 });
    },
    { timeoutMs: 45_000 },
  );
  expect(compared).toBe(merged);
  await first.leave();
  // a session tells what it read before it is gone; in the store it is, when the next one leads
  const sweep = await createSweep({ source, store, ...install });
  await eventually(async () => {
    const { rowCount } = await source.query(
      `select from pg_stat_activity where application_name = 'emend sweep' and datname = current_database()`,
    );
    expect(rowCount).toBe(0);
  });

  const before = {
    log: await readsOf(source, 'corrections.orders'),
    ledger: await readsOf(store, 'emend.ledger_recent'),
  };
  await source.query(
    `insert into corrections.orders (id, amount) select i, i from generate_series(1, 100) as i`,
  );
  // sessions tell what they read about once a second
  await eventually(async () => {
    await sweep.tick();
    const log = await readsOf(source, 'corrections.orders');
    const ledger = await readsOf(store, 'emend.ledger_recent');
    expect(log.scans).toBeGreaterThan(before.log.scans + 10);
    expect(ledger.scans).toBeGreaterThan(before.ledger.scans + 10);
  });
  const log = await readsOf(source, 'corrections.orders');
  const ledger = await readsOf(store, 'emend.ledger_recent');
  expect(log.wholeScans).toBe(before.log.wholeScans);
  expect(ledger.wholeScans).toBe(before.ledger.wholeScans);
  expect(log.rows - before.log.rows).toBeLessThan((log.scans - before.log.scans) * 101);
  expect(ledger.rows - before.ledger.rows).toBeLessThan((ledger.scans - before.ledger.scans) * 2);
});

it('a round does not sort all that was written last for each page, before any statistics tell of it', async () => {
  const { source, store, ...install } = await createInstall('sweep cost of a new log', { ddl, targets });
  const written = 200_000;
  await source.query(`alter table corrections.orders set (autovacuum_enabled = off)`);
  await source.query(
    `insert into corrections.orders (id, amount, _nonce) select i, i, i from generate_series(1, ${written}) as i`,
  );
  await store.query(
    `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at)
     select i, 'orders', now(), i, now() from generate_series(1, ${written}) as i`,
  );
  const sweep = await createSweep({ source, store, ...install });
  let compared = 0;
  await eventually(
    async () => {
      compared += (await sweep.tick())?.compared ?? 0;
      expect(compared).toBe(written);
    },
    { timeoutMs: 45_000 },
  );
  // each row by its place and by its number; pages that were sorted out of the rest read ten times as many
  await eventually(async () => {
    await sweep.tick();
    expect((await readsOf(source, 'corrections.orders')).rows).toBeGreaterThan(written);
  });
  expect((await readsOf(source, 'corrections.orders')).rows).toBeLessThan(3 * written);
});
