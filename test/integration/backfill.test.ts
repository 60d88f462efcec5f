import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { describeBackfills, describeChecks } from '../../src/cli/describe-backfill.ts';
import { listBackfills, showBackfill } from '../../src/pipeline/backfill-report.ts';
import { discardDeadLetters, retryDeadLetters } from '../../src/pipeline/dead.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { eventually, holds } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    orders: facts('public.orders', { key: ['id'], eventTime: 'ordered_at' }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.orders (id bigint not null, ordered_at timestamptz not null, amount numeric)`;

describe('a backfill', () => {
  let install: Install;
  let name: string;
  let count = 0;
  beforeAll(async () => {
    install = await createInstall('backfill', { ddl, targets });
    await install.start();
  });
  beforeEach(() => {
    count += 1;
    name = `b-${count}`;
  });

  const source = async (sql: string, values: unknown[] = []) =>
    (await install.source.query(sql, values)).rows;
  const store = async (sql: string, values: unknown[] = []) => (await install.store.query(sql, values)).rows;
  const open = (of: string[], more: { boundary?: object; checks?: object } = {}) =>
    source(`select corrections.open_backfill($1, $2, 'a test', 'v1', $3, '{}', $4)`, [
      name, of, JSON.stringify(more.boundary ?? {}), JSON.stringify(more.checks ?? {}),
    ]); // prettier-ignore
  const seal = () => source(`select corrections.seal_backfill($1)`, [name]);
  const promote = (accept: object = {}) =>
    source(`select corrections.promote_backfill($1, 'looks right', $2)`, [name, JSON.stringify(accept)]);
  const ask = (verb: 'revert' | 'abandon') =>
    source(`select corrections.${verb}_backfill($1, 'wrong after all')`, [name]);
  const price = (
    product: string,
    from: string,
    to: string,
    amount: number | null,
    backfill: string | null = name,
  ) =>
    source(
      `insert into corrections.prices (product, valid_from, valid_to, price, _op, _backfill) values ($1, $2, $3, $4, $5, $6)`,
      [product, from, to, amount, amount === null ? 'retract' : 'upsert', backfill],
    );
  const reaches = (state: string, options?: { timeoutMs: number }) =>
    eventually(async () => {
      const [row] = await store(`select state, problem from emend.backfill where name = $1`, [name]);
      expect(row).toMatchObject({ state });
    }, options);
  const held = (product: string) =>
    store(`select valid_from, valid_to, price from public.prices where product = $1 order by valid_from`, [
      product,
    ]);
  const examples = async () => {
    const { checks } = await showBackfill(install.config, name);
    return Object.fromEntries(
      checks.flatMap((check) => (check.examples ? [[check.name, check.examples]] : [])),
    );
  };
  const failing = () =>
    store(
      `select name, figure from emend.backfill_check where backfill = $1 and verdict = 'fail' order by name`,
      [name],
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

  it('is not promoted while a check fails, unless that is accepted by name, with a reason', async () => {
    await price('C', '2026-01-01', 'infinity', 4, null);
    await install.wait();
    await open(['prices'], { boundary: { prices: { from: '2026-03-01', to: '2026-04-01' } } });
    await price('C', '2026-03-15', '2026-04-15', 5);
    await seal();
    await reaches('checked');
    expect(await failing()).toEqual([{ name: 'outside_boundary', figure: '1' }]);
    expect(await examples()).toEqual({
      outside_boundary: [expect.stringMatching(/^the first is _id \d+ of the log$/)],
    });
    const { backfills, problems } = await readStatus(install.config);
    expect(backfills).toContainEqual(expect.objectContaining({ name, state: 'checked' }));
    expect(problems).toContainEqual(expect.objectContaining({ path: `backfills.${name}` }));
    await promote();
    await eventually(async () => {
      const [row] = await store(`select problem, wish from emend.backfill where name = $1`, [name]);
      expect(row).toMatchObject({
        problem: expect.stringContaining('was not promoted: checks failed: outside_boundary'),
      });
    });
    await holds(async () => expect(await held('C')).toHaveLength(1), { forMs: 300 });
    const listed = (await listBackfills(install.config)).find((each) => each.name === name)!;
    expect(listed).toMatchObject({
      state: 'checked',
      asked: 'promoted',
      problem: expect.stringContaining('outside_boundary'),
    });
    expect(listed.refusedAt, 'the promote that was refused').toBe(listed.since);
    expect(describeBackfills([listed])).toMatch(
      / checked, promote refused at \d{4}-.* was not promoted: checks failed: outside_boundary/,
    );
    await promote({ outside_boundary: 'half of April was agreed too' });
    await reaches('promoted');
    expect(
      await store(`select accepted from emend.backfill_check where backfill = $1 and verdict = 'fail'`, [
        name,
      ]),
    ).toEqual([{ accepted: 'half of April was agreed too' }]);
  });

  it("is held against its author's own checks and samples, on the tables as they would be", async () => {
    await open(['prices'], {
      checks: {
        sql: {
          no_price_above_100: `select * from public.prices where price > 100`,
          of_a_table_that_went: `select * from public.went`,
        },
        samples: [
          { target: 'prices', key: { product: 'S' }, validAt: '2026-03-10', values: { price: '5.0' } },
          { target: 'prices', key: { product: 'S' }, validAt: '2026-05-10', values: null },
          { target: 'prices', key: { product: 'S' }, validAt: '2026-03-20', values: { price: '6' } },
          { target: 'prices', key: { product: 'T' }, validAt: '2026-05-01', values: { price: '500' } },
          { target: 'prices', key: { product: 'T' }, validAt: '2026-03-20', values: null },
        ],
      },
    });
    await price('S', '2026-03-01', '2026-04-01', 5);
    await price('T', '2026-03-01', '2026-04-01', 500);
    await seal();
    await reaches('checked');
    expect(await failing()).toEqual([
      { name: 'no_price_above_100', figure: '1' },
      { name: 'of_a_table_that_went', figure: 'cannot be run: relation "public.went" does not exist' },
      { name: 'samples_differing', figure: '3' },
    ]);
    const places = [
      'product=S at 2026-03-20: price is 5, and the sample wants 6',
      'product=T at 2026-05-01: there is no answer',
      'product=T at 2026-03-20: there is an answer, and the sample wants none',
    ];
    expect(await examples()).toEqual({
      no_price_above_100: [expect.stringMatching(/"price": 500, .*"product": "T"/)],
      samples_differing: places,
    });
    const { checks } = await showBackfill(install.config, name);
    expect(describeChecks(name, 'checked', checks)).toMatch(
      /\nfailing check .*\n.*\n.*\nsamples_differing +prices +product=S at 2026-03-20: price is 5, and the sample wants 6\n/,
    );
    expect(await held('T')).toEqual([]);
  });

  it('that would take answers away from now on, contradicts itself, or carries load times as valid times is caught', async () => {
    await price('X', '2020-01-01', 'infinity', 4, null);
    await install.wait();
    await open(['prices']);
    await price('X', '2026-03-01', 'infinity', null);
    const today = new Date().toISOString().slice(0, 10);
    for (const product of ['O', 'P', 'Q', 'U']) await price(product, today, 'infinity', 5);
    await price('P', today, '2099-01-01', 6);
    await price('N', '2026-01-01', '2026-02-01', 1);
    await price('N', '2026-01-15', '2026-02-01', 2);
    await seal();
    await reaches('checked');
    expect((await failing()).map((check) => check.name)).toEqual([
      'answers_lost_from_now_on',
      'contradictions',
      'valid_at_load_time',
    ]);
    const [second] = await source(
      `select _id::text as id from corrections.prices where _backfill = $1 and price = 2`,
      [name],
    );
    expect(second).toBeDefined();
    const [first] = await source(
      `select min(_id)::text as id from corrections.prices where _backfill = $1 and price in (2, 6)`,
      [name],
    );
    expect((await examples())['contradictions']).toEqual([
      `_id ${first.id} of the log: another row with the same product speaks of the same instant`,
    ]);
  });

  it('whose facts contradict each other says which row does', async () => {
    await open(['orders']);
    await source(
      `insert into corrections.orders (id, ordered_at, amount, _backfill)
       values (71, '2026-01-01', 1, $1), (72, '2026-01-01', 2, $1), (71, '2026-01-01', 3, $1)`,
      [name],
    );
    await seal();
    await reaches('checked');
    expect(await failing()).toEqual([{ name: 'contradictions', figure: '1' }]);
    const [third] = await source(
      `select _id::text as id from corrections.orders where _backfill = $1 and amount = 3`,
      [name],
    );
    expect(await examples()).toEqual({
      contradictions: [`_id ${third.id} of the log: another row with the same id states the same fact`],
    });
  });

  it('that is to be promoted with a check accepted that is none is answered with no, and says which', async () => {
    await open(['prices']);
    await price('Z', '2026-03-01', '2026-04-01', 5);
    await seal();
    await promote({ outside_boundry: 'agreed' });
    await eventually(async () => {
      const [row] = await store(`select state, problem, wish from emend.backfill where name = $1`, [name]);
      expect(row).toMatchObject({
        state: 'checked',
        problem: expect.stringMatching(
          /^backfill b-\d+ was not promoted: it was to accept outside_boundry, which is no check of it \(known: rows, .*outside_boundary, .*\); ask again$/,
        ),
        wish: null,
      });
    });
    await promote({
      'null_share:price': 'of a column, and needed for some rows only',
      contradictions: 'none',
    });
    await reaches('promoted');
  });

  it('of new keys alone is held against the nulls that the target has, and where it has no row no share of nulls is a rise', async () => {
    const orders = async (rows: readonly (readonly [number, number | null])[]) => {
      for (const [id, amount] of rows)
        await source(
          `insert into corrections.orders (id, ordered_at, amount, _backfill) values ($1, '2026-03-01', $2, $3)`,
          [id, amount, name],
        );
      await seal();
      await reaches('checked');
      return store(
        `select figure, verdict from emend.backfill_check where backfill = $1 and name = 'null_share:amount'`,
        [name],
      );
    };
    await store(`truncate public.orders`);
    await open(['orders']);
    expect(await orders([[901, null], [902, 1]])).toEqual([{ figure: 'none -> 0.500', verdict: 'note' }]); // prettier-ignore
    await promote();
    await reaches('promoted');
    name = `${name}-like`;
    await open(['orders']);
    expect(await orders([[903, null], [904, 1]])).toEqual([{ figure: '0.500 -> 0.500', verdict: 'pass' }]); // prettier-ignore
    name = `${name}-more`;
    await open(['orders']);
    expect(await orders([[905, null], [906, null]])).toEqual([{ figure: '0.500 -> 1.000', verdict: 'fail' }]); // prettier-ignore
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

  it('a row that the table refuses is told by the check, and keeps all of it out', async () => {
    await store(`alter table public.prices add constraint cheap check (price < 1000) not valid`);
    await open(['prices']);
    await price('E', '2026-03-01', '2026-04-01', 5);
    await price('F', '2026-03-01', '2026-04-01', 5000);
    await seal();
    await reaches('checked');
    expect(await failing()).toEqual([{ name: 'merge', figure: expect.stringContaining('"cheap"') }]);
    await promote({ merge: 'it will be fine' });
    await eventually(async () => {
      const [row] = await store(`select problem from emend.backfill where name = $1`, [name]);
      expect(row.problem).toBe(
        `backfill ${name} was not promoted: prices refuses a row: new row for relation "prices" violates check constraint "cheap"; ` +
          'mend the rule, or what it looks at, and promote again; or abandon the backfill, and load right rows into a new one',
      );
    });
    expect(await held('E')).toEqual([]);
  });
});
