import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { archive } from '../../src/pipeline/archive.ts';
import { rebuild } from '../../src/pipeline/rebuild.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { createFolder } from '../support/archive.ts';
import { holdLockOfFence, stopAt } from '../support/backfill-work.ts';
import type { Stop, Stopped } from '../support/backfill-work.ts';
import { eventually, holds } from '../support/eventually.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    orders: facts('public.orders', { key: ['id'] }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.orders (id bigint primary key, amount numeric)`;

const swapNow = { swap: true, reason: 'a test' };

/** A session of a rebuild, and not a worker of somebody else. */
const ofRebuild = `current_setting('application_name') = 'emend rebuild'`;

async function createFilled(name: string, more = ''): Promise<Install> {
  const install = await createInstall(name, { ddl: `${ddl}; ${more}`, targets });
  await install.start();
  await install.source.query(
    `insert into corrections.prices (product, valid_from, valid_to, price) select 'p' || n, '2026-01-01', 'infinity', n from generate_series(1, 40) n;
     insert into corrections.orders (id, amount) select n, n from generate_series(1, 300) n`,
  );
  await install.wait();
  await install.source.query(
    `insert into corrections.prices (product, valid_from, valid_to, price) select 'p' || n, '2026-03-01', '2026-04-01', 100 + n from generate_series(1, 40) n`,
  );
  await install.wait();
  return install;
}

const found = async (install: Install) => (await verify(install.config)).map((each) => each.found);

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

interface Death {
  readonly at: string;
  readonly stop: Stop;
}

const deaths: Death[] = [
  { at: 'its beginning', stop: { table: 'emend.rebuild', when: ofRebuild } },
  { at: 'the end of the fold', stop: { table: 'emend.rebuild', on: 'update', when: `exists (select from emend.rebuild r where r.found is not null and r.outcome is null)` } },
  { at: 'raising the fence', stop: { table: 'emend.fence', when: ofRebuild } },
  { at: 'writing the target', stop: { table: 'public.prices', when: ofRebuild } },
  { at: 'writing the shadows, last', stop: { table: 'emend.prices_shadow', when: ofRebuild } },
  { at: 'the end of the swap', stop: { table: 'emend.rebuild', on: 'update', when: `exists (select from emend.rebuild r where r.outcome = 'swapped' and r.xmin = pg_current_xact_id()::xid)` } },
]; // prettier-ignore

describe('a rebuild that is killed with kill -9', () => {
  let install: Install;
  let cli: ReturnType<typeof createCli>;
  let right: unknown;

  beforeAll(async () => {
    install = await createFilled('rebuild kill');
    cli = createCli(
      `import { defineConfig, facts, timeline } from 'emend'
       export default defineConfig({ targets: {
         prices: timeline('prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
         orders: facts('orders', { key: ['id'] }),
       } })`,
      environmentOf(install),
    );
    right = await content();
  });

  beforeEach(async () => {
    await install.store.query(
      `update public.prices set price = -1 where product < 'p3'; delete from public.prices where product > 'p4';
       update emend.prices_history set price = -2; delete from emend.prices_shadow`,
    );
  });

  const content = async () => {
    const of = async (table: string) =>
      (await install.store.query<{ row: string }>(`select t::text as row from ${table} t order by 1`)).rows;
    return Promise.all(['public.prices', 'emend.prices_history', 'emend.prices_shadow'].map(of));
  };

  async function killAt(reached: () => Promise<void>): Promise<void> {
    const started = cli.start(['rebuild', 'prices', '--swap', '--reason', 'a test']);
    await Promise.race([
      eventually(reached, { timeoutMs: 60_000 }),
      started.ended.then(({ stderr }) => Promise.reject(new Error(`it came to its end: ${stderr}`))),
    ]);
    started.process.kill('SIGKILL');
    await once(started.process, 'close').catch(() => {});
  }

  /** The table is whole as it was; what is left behind is found and removed by the next one. */
  async function expectNextToBeRight(damaged: unknown, release: () => Promise<void>): Promise<void> {
    expect(await content(), 'while its session may go on').toEqual(damaged);
    await release();
    await eventually(async () =>
      expect((await install.store.query(`select from pg_stat_activity where ${ofOwnDatabase}`)).rows).toEqual(
        [],
      ),
    );
    expect(await content(), 'when all of it is gone').toEqual(damaged);
    const next = await rebuild(install.config, 'prices', swapNow);
    expect(next).toMatchObject({ outcome: 'swapped', leftAlone: 0 });
    expect(await content()).toEqual(right);
    const { rows } = await install.store.query(
      `select (select string_agg(outcome, ', ' order by id) from (select * from emend.rebuild order by id desc limit 2) r) as outcomes,
         (select count(*) from pg_class where relname like 'prices_rebuilt%') as tables,
         (select count(*) from emend.fence) + (select count(*) from emend.fence_of) as fences`,
    );
    expect(rows).toEqual([{ outcomes: 'died, swapped', tables: '0', fences: '0' }]);
  }

  it.each(deaths)('at $at leaves the old table whole, and the next one is right', async ({ stop }) => {
    const damaged = await content();
    const stopped: Stopped = await stopAt(install, stop);
    await killAt(() => stopped.reached());
    await expectNextToBeRight(damaged, () => stopped.release());
  });

  it('during the fold leaves the old table whole, and the next one is right', async () => {
    const damaged = await content();
    // the fold waits for the history as soon as it wants to read it
    const holder = new pg.Client({ connectionString: install.config.store.url });
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query(`begin; lock table emend.prices_tombstone in access exclusive mode`);
    await killAt(async () => {
      const { rows } = await install.store.query(
        `select from pg_locks l join pg_stat_activity a using (pid) where not l.granted and l.relation = 'emend.prices_tombstone'::regclass and a.application_name = 'emend rebuild'`,
      );
      expect(rows).toHaveLength(1);
    });
    await expectNextToBeRight(damaged, async () => void (await holder.query('commit')));
  });
});

const ofOwnDatabase = `datname = current_database() and application_name = 'emend rebuild'`;
