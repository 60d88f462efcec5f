import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeExplanation } from '../../src/cli/describe-explanation.ts';
import { withClient } from '../../src/db/transaction.ts';
import { explainKey } from '../../src/merge/explain-key.ts';
import { undoCorrection } from '../../src/merge/undo.ts';
import { createDatabases } from '../support/databases.ts';
import { batchOf, createStore, logRows, noAbort } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';

describe('explain and undo of a single correction', () => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    const { storeUrl } = await createDatabases('explain');
    store = await createStore(
      storeUrl,
      `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric)`,
      [
        {
          name: 'prices',
          kind: 'timeline',
          key: ['product'],
          period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
        },
      ],
    );
    const rows = [
      {
        _id: 10,
        product: 'A',
        valid_from: '2020-01-01',
        valid_to: 'infinity',
        price: 5,
        _actor: 'ada',
        _reason: 'list',
      },
      {
        _id: 12,
        product: 'A',
        valid_from: '2020-03-01',
        valid_to: '2020-05-01',
        price: 7,
        _actor: 'bob',
        _reason: 'contract',
      },
      {
        _id: 11,
        product: 'A',
        valid_from: '2020-04-01',
        valid_to: '2020-04-15',
        price: 6,
        _actor: 'eve',
        _reason: 'late',
      },
    ];
    for (const row of rows) await store.handle(batchOf(logRows(store.targets[0]!, [row])), noAbort);
  });
  afterAll(() => store?.pool.end());

  const ask = (validAt: string | null, knownAt: string | null, limit: number) =>
    withClient(store.pool, (client) =>
      explainKey(client, store.targets[0]!, { key: ['A'], validAt, knownAt, limit }),
    );
  const explain = async (validAt: string | null, knownAt: string | null = null) =>
    (await ask(validAt, knownAt, 100)).corrections;
  const inShort = async (validAt: string | null, knownAt: string | null = null) =>
    (await explain(validAt, knownAt)).map(
      ({ _id, state, _actor, columns }) => `${_id} ${state} ${_actor} ${columns['price']}`,
    );

  it('lists what covered an instant, the winner first, with who and why', async () => {
    expect(await inShort('2020-04-03')).toEqual([
      '12 stands bob 7',
      '11 shadowed eve 6',
      '10 superseded ada 5',
    ]);
    expect(await inShort('2020-06-01')).toEqual(['10 stands ada 5']);
    const [winner] = await explain('2020-04-03');
    expect(winner).toMatchObject({
      _reason: 'contract',
      columns: { product: 'A', valid_from: '2020-03-01', valid_to: '2020-05-01', price: '7' },
      believed_to: null,
    });
  });

  it('gives no more than the limit, the winner first, and says how many it leaves out', async () => {
    const { corrections, leftOut } = await ask('2020-04-03', null, 2);
    expect(corrections.map(({ _id }) => _id)).toEqual(['12', '11']);
    expect(leftOut).toBe(1);
    expect(await ask('2020-04-03', null, 3)).toMatchObject({ leftOut: 0 });
    expect(await ask('2019-01-01', null, 2)).toEqual({ corrections: [], leftOut: 0 });
    expect(describeExplanation('prices', { corrections, leftOut })).toMatch(
      /\nand 1 more correction below: give --valid-at, or a greater --limit$/,
    );
  });

  it('answers as known before the correction came', async () => {
    const { rows } = await store.pool.query<{ at: string }>(
      `select told_at::text as at from emend.ledger where _id = 10`,
    );
    expect(await inShort('2020-04-03', rows[0]!.at)).toEqual(['10 stands ada 5']);
  });

  it('takes one correction back: what it hid comes forward, and history keeps it', async () => {
    const undo = { target: store.targets[0]!, id: '12', key: ['A'], actor: 'ada', reason: 'typo' };
    const before = await store.pool.query<{ at: string }>(`select clock_timestamp()::text as at`);
    expect(await undoCorrection(store.pool, undo)).not.toBeNull();
    expect(await undoCorrection(store.pool, undo), 'a second time changes nothing').toBeNull();
    expect(await inShort('2020-04-03')).toEqual([
      '12 undone bob 7',
      '11 stands eve 6',
      '10 superseded ada 5',
    ]);
    expect(await inShort('2020-03-03')).toEqual(['12 undone bob 7', '10 stands ada 5']);
    expect(await inShort('2020-03-03', before.rows[0]!.at)).toEqual([
      '12 stands bob 7',
      '10 superseded ada 5',
    ]);
  });

  it('refuses to take back what was never merged', async () => {
    const undo = { target: store.targets[0]!, id: '99', key: ['A'], actor: 'ada', reason: 'typo' };
    await expect(undoCorrection(store.pool, undo)).rejects.toThrow(
      /correction 99 of prices has not been merged/,
    );
  });
});
