import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verifyTarget } from '../../src/verify/verify.ts';
import { carryOutAll } from '../support/backfill-work.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    orders: facts('public.orders', { key: ['id'] }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.orders (id text not null, amount numeric)`;

const states = ['open', 'checked', 'promoted', 'reverted', 'abandoned'] as const;

describe('verify', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('verify backfills', { ddl, targets });
    for (const state of states) await bringTo(state);
  });
  afterEach(() => expectClean());

  /** What a test has damaged, it mends. */
  async function expectClean(): Promise<void> {
    expect(await found()).toEqual({ prices: {}, orders: {} });
  }

  const source = async (sql: string, values: unknown[] = []) =>
    (await install.source.query(sql, values)).rows;
  const store = async (sql: string, values: unknown[] = []) => (await install.store.query(sql, values)).rows;

  /** A backfill of three rows a target, called by the state that it comes to. */
  async function bringTo(state: (typeof states)[number], name: string = state): Promise<void> {
    await source(`select corrections.open_backfill($1, '{prices,orders}', 'a test', 'v1')`, [name]);
    await source(
      `insert into corrections.prices (product, valid_from, valid_to, price, _backfill)
       select $1 || n, '2026-03-01', '2026-04-01', n, $1 from generate_series(1, 3) n`,
      [name],
    );
    await source(
      `insert into corrections.orders (id, amount, _backfill) select $1 || n, n, $1 from generate_series(1, 3) n`,
      [name],
    );
    if (state === 'open') await source(`select corrections.chunk_backfill($1, 'prices')`, [name]);
    else await source(`select corrections.seal_backfill($1)`, [name]);
    if (state === 'promoted' || state === 'reverted')
      await source(`select corrections.promote_backfill($1)`, [name]);
    await carryOutAll(install, name);
    if (state === 'reverted') await source(`select corrections.revert_backfill($1, 'wrong')`, [name]);
    if (state === 'abandoned') await source(`select corrections.abandon_backfill($1, 'wrong')`, [name]);
    await carryOutAll(install, name);
    expect(await store(`select state from emend.backfill where name = $1`, [name])).toEqual([{ state }]);
  }

  async function found(repair = false): Promise<Record<string, Record<string, number>>> {
    const kinds: Record<string, Record<string, number>> = {};
    for (const target of install.targets)
      kinds[target.name] = (
        await verifyTarget({ ...install, target, keys: null, repair, graceMs: 0, limit: 3 })
      ).found;
    return kinds;
  }

  /** Takes one row of a backfill out of a table, and says how to put it back. */
  async function lose(table: string, backfill: string, more = 'true'): Promise<() => Promise<void>> {
    const [row] = await store(
      `delete from ${table} t where ctid = (select min(ctid) from ${table} where _backfill = $1 and ${more}) returning to_jsonb(t)::text as row`,
      [backfill],
    );
    return async () => {
      await store(`insert into ${table} select * from jsonb_populate_record(null::${table}, $1)`, [row.row]);
    };
  }

  it('takes backfills for what they are in each state, and repairs nothing', async () => {
    expect(await found(true)).toEqual({ prices: {}, orders: {} });
  });

  it('finds a staged row that is lost after it was complete, and none before', async () => {
    const back = await lose('emend.prices_staged', 'checked');
    expect(await found()).toEqual({ prices: { not_held: 1 }, orders: {} });
    await back();
    await lose('emend.prices_staged', 'open');
    expect(await found()).toEqual({ prices: {}, orders: {} });
  });

  it('finds a promoted row that is lost from the store without a trace', async () => {
    const [row, entry] = [
      await lose('public.orders', 'promoted'),
      await lose('emend.ledger_recent', 'promoted', `target = 'orders'`),
    ];
    expect(await found()).toEqual({ prices: {}, orders: { not_held: 1 } });
    await Promise.all([row(), entry()]);
  });

  it('gives the ledger back what it lost of a promoted backfill', async () => {
    await lose('emend.ledger_recent', 'promoted', `target = 'orders'`);
    expect((await found()).orders).toMatchObject({ not_merged: 1 });
    expect(await found(true)).toEqual({ prices: {}, orders: {} });
  });

  it('finds an abandoned row that is not dismissed', async () => {
    const back = await lose('emend.ledger_recent', 'abandoned', `target = 'prices'`);
    expect(await found()).toEqual({ prices: { not_held: 1 }, orders: {} });
    await back();
  });

  it('finds a row that was not taken back with its backfill', async () => {
    const [undone] = await store(
      `delete from emend.undone u using emend.ledger l where l._id = u._id and l._backfill = $1 and l.target = 'prices' and l._id = (select min(_id) from emend.ledger where _backfill = $1 and target = 'prices') returning u._id, u.told_at`,
      ['reverted'],
    );
    expect((await found()).prices).toMatchObject({ not_undone: 1 });
    await store(
      `insert into emend.undone (_id, target, told_at, actor, reason) values ($1, 'prices', $2, 'tester', 'put back')`,
      [undone._id, undone.told_at],
    );
  });

  it('finds rows that are merged of a backfill that is not promoted', async () => {
    await store(`update emend.backfill set state = 'checked' where name = $1`, ['promoted']);
    expect(await found()).toEqual({ prices: { not_promoted: 3 }, orders: { not_promoted: 3 } });
    await store(`update emend.backfill set state = 'promoted' where name = $1`, ['promoted']);
  });

  // what docs/operations.md says is to be done
  it('is content when a state that was changed by hand is put back, and the backfill can be reverted then', async () => {
    const name = 'by-hand';
    await bringTo('promoted', name);
    const before = await store(`select * from emend.backfill where name = $1`, [name]);
    await store(`update emend.backfill set state = 'checked' where name = $1`, [name]);
    const damage = { prices: { not_promoted: 3 }, orders: { not_promoted: 3 } };
    expect(await found(true)).toEqual(damage);
    expect(await found()).toEqual(damage);
    const [row] = await store(`select min(_id)::text as id from emend.ledger where _backfill = $1`, [name]);
    const { id } = row as { id: string };
    await expect(
      undo({ config: install.config, target: 'prices', id, reason: 'not promoted' }),
    ).rejects.toMatchObject({ remedy: expect.stringContaining(`emend backfill revert ${name}`) as string });

    await store(
      `update emend.backfill b
       set state = (select e.state from emend.backfill_event e where e.backfill = b.name order by e.at desc limit 1)
       where b.name = $1`,
      [name],
    );
    expect(await store(`select * from emend.backfill where name = $1`, [name])).toEqual(before);
    await expectClean();
    await source(`select corrections.revert_backfill($1, 'wrong')`, [name]);
    await carryOutAll(install, name);
    expect(await store(`select id from public.orders where _backfill = $1`, [name])).toEqual([]);
  });

  it('is content when it is put on record again that the rows of a reverted backfill are taken back', async () => {
    const name = 'reverted';
    await store(
      `delete from emend.undone u using emend.ledger_of_backfill($1) l where l._id = u._id and l.target = u.target`,
      [name],
    );
    expect(await found()).toMatchObject({ prices: { not_undone: 3 }, orders: { not_undone: 3 } });
    await store(
      `insert into emend.undone (_id, target, told_at, actor, reason)
       select l._id, l.target, b.reverted_at, current_user, 'backfill ' || b.name || ' was reverted'
       from emend.backfill b
       cross join lateral emend.ledger_of_backfill(b.name) l
       where b.name = $1 and l.dismissed is null
       on conflict do nothing`,
      [name],
    );
  });
});
