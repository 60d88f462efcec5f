import { beforeEach, describe, expect, it } from 'vitest';
import { discardDeadLetters, retryDeadLetters } from '../../src/pipeline/dead.ts';
import { setUpBackfills } from '../support/backfill.ts';
import { eventually } from '../support/eventually.ts';

describe('a backfill', () => {
  let name: string;
  let count = 0;
  beforeEach(() => {
    count += 1;
    name = `b-${count}`;
  });
  const { install, source, store, open, seal, promote, ask, price, reaches, held, failing } = setUpBackfills(
    'backfill',
    () => name,
  );

  it('is seen by nobody until it is promoted, and then all at once, in all of its targets', async () => {
    await price('A', '2026-01-01', 'infinity', 4, null);
    await install.wait();
    await open(['prices', 'orders']);
    await price('A', '2026-03-01', '2026-04-01', 5);
    await source(
      `insert into corrections.orders (id, ordered_at, amount, _backfill) select n, '2026-03-01', n, $1 from generate_series(1, 12000) n`,
      [name],
    );
    await seal();
    await reaches('checked');
    expect(await failing()).toEqual([]);
    expect(await held('A')).toEqual([{ valid_from: '2026-01-01', valid_to: 'infinity', price: '4' }]);
    expect(await store(`select count(*) from public.orders`)).toEqual([{ count: '0' }]);
    expect(await store(`select backfill_status, count(*) from emend.orders_staged group by 1`)).toEqual([
      { backfill_status: 'pending', count: '12000' },
    ]);
    expect(
      await store(`select key, valid_from, valid_to, old, new from emend.backfill_change where backfill = $1 and target = 'prices'`, [name]),
    ).toEqual([
      { key: '{"product": "A"}', valid_from: '2026-03-01', valid_to: '2026-04-01', old: '{"price": "4"}', new: '{"price": "5"}' },
    ]); // prettier-ignore

    await promote();
    await reaches('promoted');
    expect(await held('A')).toEqual([
      { valid_from: '2026-01-01', valid_to: '2026-03-01', price: '4' },
      { valid_from: '2026-03-01', valid_to: '2026-04-01', price: '5' },
      { valid_from: '2026-04-01', valid_to: 'infinity', price: '4' },
    ]);
    const told = await store(
      `select distinct _known_from from public.prices where _backfill = $1 union select distinct _known_from from public.orders`,
      [name],
    );
    expect(told).toHaveLength(1);
    expect(await store(`select count(*) from emend.orders_staged`)).toEqual([{ count: '0' }]);
    expect(
      await store(`select state, reason from emend.backfill_event where backfill = $1 order by at`, [name]),
    ).toEqual([
      { state: 'open', reason: 'a test' },
      { state: 'sealed', reason: null },
      { state: 'staged', reason: null },
      { state: 'checked', reason: null },
      { state: 'promoted', reason: 'looks right' },
    ]);
  });

  it('is reverted as if it had never been promoted; later live corrections stay, and history tells all three beliefs', async () => {
    await price('R', '2026-01-01', 'infinity', 4, null);
    await install.wait();
    await open(['prices']);
    await price('R', '2026-03-01', '2026-04-01', 5);
    await seal();
    await promote();
    await reaches('promoted');
    await price('R', '2026-03-20', '2026-03-25', 6, null);
    await install.wait();
    await ask('revert');
    await reaches('reverted');
    expect(await held('R')).toEqual([
      { valid_from: '2026-01-01', valid_to: '2026-03-20', price: '4' },
      { valid_from: '2026-03-20', valid_to: '2026-03-25', price: '6' },
      { valid_from: '2026-03-25', valid_to: 'infinity', price: '4' },
    ]);
    const [{ told_at, reverted_at }] = await store(
      `select told_at, reverted_at from emend.backfill where name = $1`,
      [name],
    );
    await eventually(async () =>
      expect(await store(`select emend.settled() > $1::timestamptz as passed`, [reverted_at])).toEqual([
        { passed: 't' },
      ]),
    );
    const asOf = async (at: string) =>
      (
        await store(`select price from emend.prices_at('2026-03-10', $1::timestamptz) where product = 'R'`, [
          at,
        ])
      )[0];
    const just = (
      await store(`select ($1::timestamptz - interval '1 microsecond')::text as before`, [told_at])
    )[0];
    expect([await asOf(just.before), await asOf(told_at), await asOf(reverted_at)]).toEqual([
      { price: '4' },
      { price: '5' },
      { price: '4' },
    ]);
  });

  it('loses to what was written live after its rows, and says how many rows did', async () => {
    await open(['prices']);
    await price('L', '2026-03-01', '2026-04-01', 5);
    await price('L', '2026-03-10', '2026-03-11', 7, null);
    // begun before the row; taken back since; behind it
    for (const key of ['L1', 'L2', 'L3']) await price(key, '2026-03-01', '2026-04-01', 5);
    await price('L1', '2026-02-01', '2026-03-02', 7, null);
    await price('L2', '2026-02-01', '2026-03-02', null, null);
    await price('L3', '2026-04-01', '2026-05-01', 7, null);
    await install.wait();
    await seal();
    await promote();
    await reaches('promoted');
    expect(await held('L')).toEqual([
      { valid_from: '2026-03-01', valid_to: '2026-03-10', price: '5' },
      { valid_from: '2026-03-10', valid_to: '2026-03-11', price: '7' },
      { valid_from: '2026-03-11', valid_to: '2026-04-01', price: '5' },
    ]);
    expect(
      await store(
        `select figure, verdict from emend.backfill_check where backfill = $1 and name = 'superseded_by_newer'`,
        [name],
      ),
    ).toEqual([{ figure: '3', verdict: 'note' }]);
  });

  it('that is abandoned leaves nothing but the record, and nothing looks for its rows again (F16)', async () => {
    await open(['prices']);
    await price('Z', '2026-03-01', '2026-04-01', 5);
    await seal();
    await reaches('checked');
    await ask('abandon');
    await reaches('abandoned');
    expect(await held('Z')).toEqual([]);
    expect(await store(`select from emend.prices_staged where _backfill = $1`, [name])).toEqual([]);
    expect(
      await store(`select dismissed, dismissed_reason from emend.ledger where _backfill = $1`, [name]),
    ).toEqual([{ dismissed: 'abandoned', dismissed_reason: 'wrong after all' }]);
    await expect(price('Z', '2026-05-01', '2026-06-01', 5)).rejects.toThrow('was closed');
  });

  it('is complete though the store writes its values in other ways than they were sent (F21)', async () => {
    await open(['prices']);
    await source(
      `insert into corrections.prices (product, valid_from, valid_to, price, _backfill) values ('D', '2026-03-01', '2026-04-01', 5.0000, $1), ('D', '2026-05-01', 'infinity', 1e3, $1)`,
      [name],
    );
    await seal();
    await reaches('checked');
  });

  it('is not promoted with fewer rows than were sealed, whoever took them away', async () => {
    await open(['prices']);
    await price('W1', '2026-03-01', '2026-04-01', 5);
    await price('W2', '2026-03-01', '2026-04-01', 5);
    await seal();
    await reaches('checked');
    await store(`delete from emend.prices_staged where product = 'W2'`);
    await promote();
    await eventually(async () => {
      const [row] = await store(`select problem from emend.backfill where name = $1`, [name]);
      expect(row).toMatchObject({ problem: expect.stringContaining('of prices the store holds 1 rows') });
    });
    expect(await held('W1')).toEqual([]);
  });

  it('with a row that is set aside waits for it: retried it is staged, and discarded it counts as dismissed', async () => {
    await store(`alter table emend.prices_staged alter column price type smallint`);
    await open(['prices']);
    for (const [product, amount] of [
      ['G', 5],
      ['H', 50000],
      ['I', 60000],
    ] as const)
      // prettier-ignore
      await price(product, '2026-03-01', '2026-04-01', amount);
    await seal();
    await eventually(async () => {
      const [row] = await store(`select problem from emend.backfill where name = $1`, [name]);
      expect(row).toMatchObject({ problem: expect.stringContaining('2 rows of prices are set aside') });
    });
    const letters = await store(
      `select _id from emend.dead_letter_open where log_row ->> '_backfill' = $1 order by 1`,
      [name],
    );
    const [first, second] = letters.map((letter) => String(letter._id)) as [string, string];
    await store(`alter table emend.prices_staged alter column price type numeric`);
    expect(await retryDeadLetters(install.config, { ids: [first] })).toEqual({
      merged: [],
      staged: [first],
      setAside: [],
    });
    expect(await held('H')).toEqual([]);
    await discardDeadLetters(install.config, [second], 'not ours');
    // nothing asks for it: it is the sweep of requests that finds it standing still, every 5 seconds, after 10
    await reaches('checked', { timeoutMs: 40_000 });
    await promote();
    await reaches('promoted');
    expect([await held('G'), await held('H'), await held('I')].map((rows) => rows.length)).toEqual([1, 1, 0]);
  });
});
