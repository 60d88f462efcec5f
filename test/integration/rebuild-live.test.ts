import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { archive } from '../../src/pipeline/archive.ts';
import { rebuild } from '../../src/pipeline/rebuild.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { createFolder } from '../support/archive.ts';
import { holdLockOfFence, stopAt } from '../support/backfill-work.ts';
import { eventually, holds } from '../support/eventually.ts';
import { createFilled, found, ofRebuild, swapNow } from '../support/rebuild.ts';

describe('a swap', () => {
  it('leaves the table itself: its number, rights, comments, views, indexes, foreign keys, plans', async () => {
    const install = await createFilled(
      'rebuild keeps',
      `comment on table public.orders is 'what was ordered';
       comment on column public.orders.amount is 'in euros';
       create index orders_by_amount on public.orders (amount) where amount > 100;
       create table public.deliveries (order_id bigint references public.orders (id), note text);
       create view public.large_orders as select id, amount from public.orders where amount > 100;
       create materialized view public.turnover as select sum(amount) as total from public.orders;
       alter table public.orders enable row level security;
       create policy own on public.orders for select using (amount > 0);
       grant select on public.orders, public.large_orders to public`,
    );
    const { store } = install;
    await store.query(
      `insert into public.deliveries select id, 'sent' from public.orders; refresh materialized view public.turnover; create publication rebuilt for table public.orders`,
    );
    const hanging = async () =>
      (
        await store.query(
          `select c.oid, c.relfilenode, c.relacl, c.relrowsecurity, c.reloptions, obj_description(c.oid) as comment, col_description(c.oid, 2) as of_column,
             (select json_agg(pg_get_indexdef(i.indexrelid) order by i.indexrelid) from pg_index i where i.indrelid = c.oid) as indexes,
             (select json_agg(pg_get_constraintdef(k.oid) order by k.oid) from pg_constraint k where k.conrelid = c.oid or k.confrelid = c.oid) as constraints,
             (select json_agg(p.polname) from pg_policy p where p.polrelid = c.oid) as policies,
             (select json_agg(p.pubname) from pg_publication_tables p where p.tablename = 'orders') as publications,
             pg_get_viewdef('public.large_orders'::regclass) as view, (select total from public.turnover) as total,
             (select count(*) from public.deliveries) as deliveries
           from pg_class c where c.oid = 'public.orders'::regclass`,
        )
      ).rows;
    const before = await hanging();
    const session = await store.connect();
    onTestFinished(() => session.release());
    await session.query(`prepare of_one as select amount from public.orders where id = $1`);
    await store.query(`update public.orders set amount = 0`);

    expect(await rebuild(install.config, 'orders', swapNow)).toMatchObject({
      outcome: 'swapped',
      keys: 300,
      written: { takenOut: 300, putIn: 300 },
    });
    expect(await hanging()).toEqual(before);
    expect((await session.query(`execute of_one (250)`)).rows).toEqual([{ amount: '250' }]);
    const { rows } = await store.query(`select count(*) from public.large_orders`);
    expect(rows).toEqual([{ count: '200' }]);
    await store.query(`refresh materialized view public.turnover`);
    expect(await hanging()).toEqual(before);
    expect(await found(install)).toEqual([{}, {}]);
  });

  it('is seen whole or not at all, by readers who are never kept waiting', async () => {
    const install = await createFilled('rebuild readers');
    const { store } = install;
    await store.query(`update public.prices set price = -1; delete from public.orders`);
    const stopped = await stopAt(install, { table: 'public.prices', when: ofRebuild });
    const seen = new Set<string>();
    let reading = true;
    const reader = (async () => {
      while (reading) {
        const { rows } = await store.query<{ sum: string; rows: string }>(
          `select sum(price), count(*) as rows from public.prices`,
        );
        seen.add(`${rows[0]!.rows} rows, ${rows[0]!.sum}`);
      }
    })();
    const swapping = rebuild(install.config, 'prices', swapNow);
    await stopped.reached();
    expect([...seen], 'while all of it is written, and none of it committed').toEqual(['120 rows, -120']);
    await stopped.release();
    await swapping;
    await eventually(() => expect(seen.size).toBeGreaterThan(1));
    reading = false;
    await reader;
    expect([...seen]).toEqual(['120 rows, -120', '120 rows, 6460']);
  });

  it('lets keys that are right be merged while it is at work, and keeps those that differ until it is done', async () => {
    const install = await createFilled('rebuild fence');
    const { source, store } = install;
    await store.query(`update public.prices set price = -1 where product in ('p1', 'p2')`);
    const stopped = await stopAt(install, { table: 'public.prices', when: ofRebuild });
    const swapping = rebuild(install.config, 'prices', swapNow);
    await stopped.reached();
    const june = async () =>
      (await store.query(`select price from public.prices where valid_from = '2026-06-01' order by 1`)).rows;
    // one after the other: a batch that meets a fenced key waits as a whole
    for (const [product, price] of [
      ['p3', 63],
      ['p1', 61],
    ]) {
      await source.query(
        `insert into corrections.prices (product, valid_from, valid_to, price) values ($1, '2026-06-01', '2026-07-01', $2)`,
        [product, price],
      );
      await eventually(async () => expect(await june()).toEqual([{ price: '63' }]));
    }
    await holds(async () => expect(await june()).toEqual([{ price: '63' }]), { forMs: 1_500 });
    await stopped.release();
    expect(await swapping).toMatchObject({ outcome: 'swapped', keys: 2 });
    await install.wait();
    expect(await june()).toEqual([{ price: '61' }, { price: '63' }]);
    expect(await found(install)).toEqual([{}, {}]);
  });

  it('has what was told, taken back or written by hand between the fold and itself', async () => {
    const install = await createFilled('rebuild since');
    const { source, store, config } = install;
    await source.query(
      `insert into corrections.prices (product, valid_from, valid_to, price) values ('p7', '2026-08-01', '2026-09-01', 87)`,
    );
    await install.wait();
    const { rows } = await source.query<{ id: string }>(`select max(_id) as id from corrections.prices`);
    await store.query(`update public.prices set price = -1 where product <= 'p2'; delete from public.prices where product >= 'p3'`);
    const stopped = await stopAt(install, { table: 'emend.fence' });
    const swapping = rebuild(config, 'prices', swapNow);
    await stopped.reached();
    await source.query(
      `insert into corrections.prices (product, valid_from, valid_to, price) values ('p1', '2026-06-01', '2026-07-01', 61), ('p40', '2026-03-10', '2026-03-20', 0)`,
    );
    await install.wait();
    await undo({ config, target: 'prices', id: rows[0]!.id, reason: 'typo' });
    await store.query(`update public.prices set price = -2 where product = 'p2'; delete from public.prices where product = 'p10'`);
    await stopped.release();
    await swapping;
    expect(await found(install)).toEqual([{}, {}]);
    const asked = await store.query(
      `select product, price from emend.prices_at('2026-06-15') where product in ('p1', 'p2', 'p10') union all
       select product, price from emend.prices_at('2026-03-15') where product = 'p40' union all
       select product, price from emend.prices_at('2026-08-15') where product = 'p7' order by 1`,
    );
    expect(asked.rows.map((row: { product: string; price: string }) => `${row.product} ${row.price}`)).toEqual(['p1 61', 'p10 10', 'p2 2', 'p40 0', 'p7 7']);
  }); // prettier-ignore

  it('is refused, and loses nothing, where what was told since the fold is archived before it is swapped', async () => {
    const install = await createFilled('rebuild archived');
    const { source, store, config } = install;
    await store.query(`delete from public.prices where product = 'p1'`);
    const stopped = await stopAt(install, { table: 'emend.fence' });
    const refusal = rebuild(config, 'prices', swapNow).catch((error: unknown) => error);
    await stopped.reached();
    await source.query(
      `insert into corrections.prices (product, valid_from, valid_to, price) values ('p1', '2026-06-01', '2026-07-01', 61)`,
    );
    await install.wait();
    await archive(config, { target: 'prices', before: new Date().toISOString(), to: createFolder() });
    await stopped.release();
    expect(await refusal).toMatchObject({
      code: 'rebuild_busy',
      message: '1 correction of prices left the log while it was rebuilt; nothing was swapped',
    });
    await rebuild(config, 'prices', swapNow);
    expect(
      (await store.query(`select price from emend.prices_at('2026-06-15') where product = 'p1'`)).rows,
    ).toEqual([{ price: '61' }]);
    expect(await found(install)).toEqual([{}, {}]);
  });

  it('comes out right while eight writers write, and others damage the table', { timeout: 180_000 }, async () => {
    const install = await createFilled('rebuild writers');
    const { source, store, config } = install;
    let writing = true;
    let written = 0;
    const writers = Array.from({ length: 8 }, async () => {
      while (writing) {
        await source.query(
          `insert into corrections.prices (product, valid_from, valid_to, price)
           select 'p' || 1 + (random() * 39)::int, d, d + 1 + (random() * 50)::int, random() * 100 from (select date '2026-01-01' + (random() * 300)::int as d) as start`,
        );
        written += 1;
        await sleep(200);
      }
    });
    try {
      for (let round = 0; round < 4; round += 1) {
        await store.query(`delete from public.prices where product = 'p' || 1 + (random() * 39)::int`);
        await store.query(`delete from emend.prices_history where ctid in (select ctid from emend.prices_history order by random() limit 5)`);
        const { leftAlone, keys } = await rebuild(config, 'prices', swapNow);
        expect(leftAlone).toBe(0);
        expect(keys, `keys of round ${round}`).toBeGreaterThan(0);
      }
    } finally {
      writing = false;
      await Promise.all(writers);
    }
    expect((await store.query(`select holder from emend.fence_of`)).rows, 'fences that are left').toEqual([]);
    await waitUntilMerged({ config, timeoutMs: 90_000 });
    // damage that is younger than what was settled at its start is seen by the next one
    await rebuild(config, 'prices', swapNow);
    expect(await found(install), `${written} corrections`).toEqual([{}, {}]);
  }); // prettier-ignore

  it('waits for whoever takes the fence of a dead one away, and fails where that one stays', async () => {
    const install = await createFilled('rebuild orphan');
    await install.store.query(`delete from public.prices`);
    const staying = await holdLockOfFence(install, 'rebuild of prices');
    await expect(rebuild(install.config, 'prices', swapNow)).rejects.toMatchObject({
      code: 'backfill_busy',
      remedy: 'Nothing was exchanged. Run the rebuild again when that has ended.',
    });
    const swapping = rebuild(install.config, 'prices', swapNow);
    await Promise.race([staying.reached(), swapping]);
    await staying.release();
    expect(await swapping).toMatchObject({ outcome: 'swapped' });
    expect(await found(install)).toEqual([{}, {}]);
  });

  it('is one at a time of a target', async () => {
    const install = await createFilled('rebuild twice');
    await install.store.query(`delete from public.prices`);
    const stopped = await stopAt(install, { table: 'emend.fence' });
    const first = rebuild(install.config, 'prices', swapNow);
    await stopped.reached();
    await expect(rebuild(install.config, 'prices', swapNow)).rejects.toMatchObject({ code: 'rebuild_busy' });
    expect(await rebuild(install.config, 'orders')).toMatchObject({ found: {} });
    await stopped.release();
    expect(await first).toMatchObject({ outcome: 'swapped' });
  });
});
