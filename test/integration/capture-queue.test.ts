import { expect, test } from 'vitest';
import { parseLsn } from '../../src/change/lsn.ts';
import { accepted, createSource, startReader, streaming } from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually, holds } from '../support/eventually.ts';

test('while the queue refuses, nothing is confirmed or lost and the connection stays; then it goes on', async () => {
  const source = await createSource((await createDatabases('capture refuse')).sourceUrl);
  let refuses = true;
  const reader = startReader(source, {
    beforeAccept() {
      if (refuses) throw new Error('no');
    },
  });
  await streaming(reader);
  const before = await source.slotRow();
  const ids = [...(await source.insert(3)), ...(await source.insert(1_500)), ...(await source.insert(1))];
  await eventually(() => expect(reader.capture.status().state).toBe('queue_unavailable'));
  const { confirmed: safe } = reader.capture.status();
  const stays = async (): Promise<void> => {
    const { confirmed, pid } = await source.slotRow();
    expect(parseLsn(confirmed)).toBeLessThanOrEqual(parseLsn(safe));
    expect(pid).toBe(before.pid);
  };
  await holds(stays, { forMs: 1_000 });
  expect(reader.capture.status().confirmed).toBe(safe);
  expect(reader.ids()).toEqual([]);
  refuses = false;
  await accepted(reader, ids);
  expect(reader.ids()).toEqual(ids); // once each, in order
  expect(parseLsn(safe)).toBeLessThan(reader.batches[0]!.endLsn);
  await eventually(async () => {
    const { confirmed, pid } = await source.slotRow();
    expect(parseLsn(confirmed)).toBeGreaterThanOrEqual(reader.batches.at(-1)!.endLsn);
    expect(pid).toBe(before.pid);
  });
  expect(reader.capture.status().transactionsCut).toBe(1);
});

test('a full queue for longer than wal_sender_timeout does not cost the connection', async () => {
  const source = await createSource((await createDatabases('capture timeout')).sourceUrl);
  await source.db.query(
    `do $$ begin execute format('alter database %I set wal_sender_timeout = 2000', current_database()); end $$`,
  );
  let release: (() => void) | undefined;
  const full = new Promise<void>((resolve) => (release = resolve));
  const reader = startReader(source, { beforeAccept: () => full });
  await streaming(reader);
  const { pid } = await source.slotRow();
  const ids: string[] = [];
  for (let i = 0; i < 30; i += 1) ids.push(...(await source.insert(1_000, 'x'.repeat(800))));
  await holds(async () => expect((await source.slotRow()).pid).toBe(pid), { forMs: 5_000 });
  release!();
  await accepted(reader, ids);
  expect((await source.slotRow()).pid).toBe(pid);
});

test('wal_sender_timeout = 0 means no limit, not a storm', async () => {
  const source = await createSource((await createDatabases('capture zero')).sourceUrl);
  await source.db.query(
    `do $$ begin execute format('alter database %I set wal_sender_timeout = 0', current_database()); end $$`,
  );
  const reader = startReader(source);
  await streaming(reader);
  const { pid } = await source.slotRow();
  await holds(async () => expect((await source.slotRow()).pid).toBe(pid), { forMs: 1_000 });
  await accepted(reader, await source.insert(2));
});

test('a busy table outside the publication does not keep WAL while the logs are idle', async () => {
  const source = await createSource((await createDatabases('capture busy')).sourceUrl);
  const reader = startReader(source);
  await streaming(reader);
  await source.db.query('create table neighbour (n int)');
  for (let round = 0; round < 3; round += 1) {
    await source.db.query('insert into neighbour select generate_series(1, 5000)');
    const { rows } = await source.db.query<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn');
    await eventually(
      async () =>
        expect(parseLsn((await source.slotRow()).confirmed)).toBeGreaterThanOrEqual(parseLsn(rows[0]!.lsn)),
      {
        timeoutMs: 5_000,
      },
    );
  }
  expect(reader.ids()).toEqual([]);
});

test('a transaction of 200,000 rows takes bounded memory, in pieces of atomicRows', async () => {
  const source = await createSource((await createDatabases('capture large')).sourceUrl);
  let release: (() => void) | undefined;
  const full = new Promise<void>((resolve) => (release = resolve));
  let rows = 0;
  let largest = 0;
  const memory: number[] = [];
  const reader = startReader(source, {
    async beforeAccept(offered) {
      await full;
      for (const batch of offered) {
        rows += batch.rows;
        largest = Math.max(largest, batch.rows);
      }
      reader.batches.length = 0; // the test must not hold them either
      memory.push(process.memoryUsage().rss);
    },
  });
  await streaming(reader);
  await source.insert(1);
  const before = process.memoryUsage().rss;
  await source.db.query(
    `insert into corrections.prices (product_id, valid_from, valid_to, _reason)
     select 'A' || n, '-infinity', 'infinity', repeat(md5(n::text), 30)
     from generate_series(1, 200000) as n`,
  );
  // The queue takes nothing: 200 MB stand in the source, and the reader holds its share of them only.
  await holds(() => expect(process.memoryUsage().rss - before).toBeLessThan(100e6), { forMs: 2_000 });
  release!();
  await eventually(() => expect(rows).toBe(200_001), { timeoutMs: 40_000 });
  expect(largest).toBeLessThanOrEqual(1_000);
  expect(Math.max(...memory) - before).toBeLessThan(150e6);
  expect(reader.capture.status().transactionsCut).toBe(1);
});
