import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import type { Pool } from 'pg';
import { facts } from '../../src/config/define-config.ts';
import { compactLedger } from '../../src/sweep/compact.ts';
import { withClient } from '../../src/db/transaction.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { compactWhole } from '../support/ledger.ts';
import { createSweep } from '../support/sweep.ts';

const ddl = `create table public.orders (id integer primary key, amount integer not null)`;
const targets = { orders: facts('public.orders', { key: ['id'] }) };

let install: Install;
let store: Pool;
beforeAll(async () => {
  install = await createInstall('ledger', { ddl, targets });
  store = install.store;
});

const all = async () =>
  (await store.query(`select l::text as entry from emend.ledger l order by l._id`)).rows.map(
    ({ entry }) => entry as string,
  );

it('what the ledger says does not change when it is compacted, whatever is in it and however often', async () => {
  const text = fc.option(fc.constantFrom('', 'a', `it's "so", {null}`), { nil: null });
  const entry = fc.record({
    id: fc.integer({ min: 1, max: 300 }),
    target: fc.constantFrom('orders', 'prices'),
    nonce: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
    backfill: text,
    actor: text,
    reason: text,
    dismissed: text,
  });
  const entries = fc.uniqueArray(entry, { selector: ({ id }) => id, minLength: 1, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(entries, fc.nat({ max: 59 }), async (drawn, first) => {
      await store.query(`truncate emend.ledger_recent, emend.ledger_block`);
      const write = (some: typeof drawn) =>
        store.query(
          `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _backfill, _actor, _reason, dismissed)
           select id, target, timestamptz '2026-01-01' + id * interval '1 second', nonce, timestamptz '2025-01-01' - id * interval '1 us',
             backfill, actor, reason, dismissed
           from json_to_recordset($1) as e (id bigint, target text, nonce bigint, backfill text, actor text, reason text, dismissed text)`,
          [JSON.stringify(some)],
        );
      // late ones come to a block that is there
      await write(drawn.slice(first));
      await compactWhole(store);
      await write(drawn.slice(0, first));
      const before = await all();
      await compactWhole(store);
      expect(await all()).toEqual(before);
      const { rows } = await store.query(`
        select
          (select count(*) from emend.ledger_recent)::text as recent,
          (select count(*) from emend.ledger l, emend.ledger_at(l._id) a where l::text = a::text)::text as found,
          (select count(*) from generate_series(0, 310) i where exists (select from emend.ledger_at(i)))::text as present,
          (select count(*) from emend.ledger_between(50, 200))::text as between,
          (select count(*) from emend.ledger where _id between 50 and 200)::text as between_all,
          (select count(*) from emend.ledger_of_backfill('a'))::text as of_a,
          (select count(*) from emend.ledger where _backfill = 'a')::text as of_a_all,
          (select sum(rows) || ' ' || bit_xor(nonces_xor) from emend.ledger_digest) as digest,
          (select count(*) || ' ' || bit_xor(_nonce) from emend.ledger) as digest_all`);
      const [seen] = rows;
      const count = String(drawn.length);
      expect(seen).toMatchObject({ recent: '0', found: count, present: count });
      expect([seen.between, seen.of_a, seen.digest]).toEqual([
        seen.between_all,
        seen.of_a_all,
        seen.digest_all,
      ]);
    }),
    { numRuns: 60 },
  );
});

it('leaves the last rows and those just told alone, takes the others block by block, and an entry takes a third of the room', async () => {
  const rows = 100_000;
  await store.query(`truncate emend.ledger_recent, emend.ledger_block`);
  await store.query(
    `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _actor, _reason)
     select i, 'orders', clock_timestamp() - interval '1 hour' + i / 1000 * interval '1 ms', hashint8extended(i, 0), now() - i / 1000 * interval '1 ms', 'app', 'price of contract 17'
     from generate_series(1, ${rows}) i`,
  );
  await store.query(`update emend.ledger_recent set told_at = clock_timestamp() where _id = 5000`);
  const before = await all();
  const sizeOf = async (table: string) =>
    Number((await store.query(`select pg_total_relation_size('${table}') as bytes`)).rows[0].bytes);
  await store.query(`vacuum full emend.ledger_recent`);
  const bytesBefore = (await sizeOf('emend.ledger_recent')) / rows;
  const tuning = { ledgerKeepRows: 10_000, ledgerMinAgeMs: 60_000 };
  await withClient(store, async (client) => {
    for (let after: bigint | null = 0n; after !== null;) after = await compactLedger(client, after, tuning);
  });
  expect(await all()).toEqual(before);
  const { rows: recent } = await store.query(
    `select min(_id) as first, (select min(_id) from emend.ledger_recent where _id > 5000) as rest from emend.ledger_recent`,
  );
  expect(recent[0]).toEqual({ first: '5000', rest: String(Math.floor((rows - 10_000) / 4096) * 4096) });
  const compacted = Number((await store.query(`select sum(rows) as n from emend.ledger_block`)).rows[0].n);
  const bytes = (await sizeOf('emend.ledger_block')) / compacted;
  expect(bytes, `${bytes} bytes an entry, ${bytesBefore} before`).toBeLessThan(bytesBefore / 3);
});

it('the sweep misses nothing that was compacted, and still tells a number that was given out again', async () => {
  await store.query(`truncate emend.ledger_recent, emend.ledger_block`);
  await install.source.query(
    `insert into corrections.orders (id, amount) select i, i from generate_series(1, 50) i`,
  );
  const pipeline = await install.start();
  await install.wait();
  await compactWhole(store);
  const before = await all();
  expect(before).toHaveLength(50);
  // the sweep compares everything anew, and finds nothing; nor does whoever waits
  await pipeline.stop();
  const sweep = await createSweep(install);
  await store.query(`delete from emend.sweep`);
  await eventually(async () =>
    expect(await sweep.tick()).toMatchObject({ isComplete: true, missing: 0, enqueued: 0 }),
  );
  expect(await all()).toEqual(before);
  // the number of a compacted entry, given out again
  await install.source.query(`alter table corrections.orders disable trigger user`);
  await install.source.query(`update corrections.orders set _nonce = 1 where id = 7`);
  await store.query(`delete from emend.sweep`);
  await sweep.leave();
  const again = await createSweep(install);
  await eventually(async () => {
    await again.tick();
    const { rows } = await store.query(`select kind from emend.diverged where kind = 'reused'`);
    expect(rows).toEqual([{ kind: 'reused' }]);
  });
});
