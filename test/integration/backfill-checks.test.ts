import { beforeEach, describe, expect, it } from 'vitest';
import { describeBackfills, describeChecks } from '../../src/cli/describe-backfill.ts';
import { listBackfills, showBackfill } from '../../src/pipeline/backfill-report.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { setUpBackfills } from '../support/backfill.ts';
import { eventually, holds } from '../support/eventually.ts';

describe('a backfill', () => {
  let name: string;
  let count = 0;
  beforeEach(() => {
    count += 1;
    name = `b-${count}`;
  });
  const { install, source, store, open, seal, promote, price, reaches, held, failing } = setUpBackfills(
    'backfill checks',
    () => name,
  );
  const examples = async () => {
    const { checks } = await showBackfill(install.config, name);
    return Object.fromEntries(
      checks.flatMap((check) => (check.examples ? [[check.name, check.examples]] : [])),
    );
  };

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
