import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { rebuildInto } from '../../src/pipeline/rebuild.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', {
      key: ['product'],
      period: ['valid_from', 'valid_to'],
      openEnd: '9999-12-31',
      closed: true,
    }),
    orders: facts('public.orders', { key: ['id'] }),
  },
});

const ddl = `
  create schema inputs;
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric(10, 2), twice numeric generated always as (price * 2) stored);
  create table public.orders (id bigint primary key, amount numeric, tags jsonb)`;

describe('a target as it was known at a time', () => {
  let install: Install;
  const times: string[] = [];

  beforeAll(async () => {
    install = await createInstall('rebuild into', { ddl, targets });
    const pipeline = await install.start();
    const write = async (sql: string) => {
      await install.source.query(sql);
      await install.wait();
      times.push(await settled());
    };
    await write(
      `insert into corrections.prices (product, valid_from, valid_to, price) select 'p' || n, '2026-01-01', '9999-12-31', n from generate_series(1, 5) n;
       insert into corrections.orders (id, amount, tags) select n, n, '{"n": 1}' from generate_series(1, 5) n`,
    );
    await write(
      `insert into corrections.prices (product, valid_from, valid_to, price) values ('p1', '2026-03-01', '2026-03-31', 10), ('p6', '2026-03-01', '2026-03-31', 60);
       insert into corrections.orders (id, amount) values (1, 10)`,
    );
    await write(
      `insert into corrections.prices (product, valid_from, valid_to, _op) values ('p2', '2026-06-01', '2026-06-30', 'retract');
       insert into corrections.orders (id, _op) values (2, 'retract')`,
    );
    const { rows } = await install.source.query<{ id: string }>(
      `select min(_id) as id from corrections.prices where product = 'p6'`,
    );
    await undo({ config: install.config, target: 'prices', id: rows[0]!.id, reason: 'typo' });
    times.push(await settled());
    await pipeline.stop();
  });

  /** A time at which everything is told that is merged by now. */
  async function settled(): Promise<string> {
    const { rows } = await install.store.query<{ at: string }>(
      `select emend.await_settled(clock_timestamp()) as at`,
    );
    return rows[0]!.at;
  }

  const rowsOf = async (from: string, columns: string) =>
    (
      await install.store.query<{ row: string }>(
        `select row(${columns})::text as row from ${from} t order by 1`,
      )
    ).rows.map(({ row }) => row);

  it.each([0, 1, 2, 3])('is written to a table of its own, row for row: state %i', async (state) => {
    for (const [name, columns] of [
      ['prices', 'product, valid_from, valid_to, price, _version, _known_from'],
      ['orders', 'id, amount, tags, _version, _known_from'],
    ] as const) {
      const into = `inputs.${name}_${state}`;
      const written = await rebuildInto(install.config, name, { into, knownAt: times[state] });
      const then = await rowsOf(`emend.${name}_as_of('${times[state]}')`, columns);
      expect(then.length).toBeGreaterThan(3);
      expect(await rowsOf(into, columns)).toEqual(then);
      expect(written).toMatchObject({ rows: then.length, uncertain: 0, into: `"inputs"."${name}_${state}"` });
    }
    expect(new Set(await rowsOf(`inputs.prices_${state}`, 'twice - 2 * price'))).toEqual(new Set(['(0.00)']));
  });

  it('is the same once more, also after the store lost its own record of that time', async () => {
    await install.store.query(`create table public.kept as select * from emend.prices_history; delete from emend.prices_history`);
    await rebuildInto(install.config, 'prices', { into: 'inputs.again', knownAt: times[1] });
    const columns = 'product, valid_from, valid_to, price, _version, _known_from';
    expect(await rowsOf('inputs.again', columns)).toEqual(await rowsOf('inputs.prices_1', columns));
    await install.store.query(`insert into emend.prices_history select * from public.kept`);
  }); // prettier-ignore

  it('is compared with the target of today', async () => {
    const written = await rebuildInto(install.config, 'orders', {
      into: 'inputs.compared',
      knownAt: times[0],
      limit: 1,
    });
    expect(written).toMatchObject({
      corrections: 5,
      rows: 5,
      changed: { changed: 1, only_known: 1 },
      changes: [
        {
          kind: 'changed',
          known: { id: '1', amount: '1', tags: '{"n": 1}' },
          today: { id: '1', amount: '10', tags: null },
        },
      ],
    });
    expect(await rebuildInto(install.config, 'orders', { into: 'inputs.today' })).toMatchObject({
      changed: {},
      changes: [],
    });
  });

  it('is on record, and says in the catalogue what it is', async () => {
    const { rows } = await install.store.query(
      `select r.outcome, r.known_at = $1::timestamptz as at, r.put_in, obj_description('inputs.compared'::regclass) as comment
       from emend.rebuild r where r.written_to = '"inputs"."compared"'`,
      [times[0]],
    );
    expect(rows).toEqual([
      { outcome: 'written', at: 't', put_in: '5', comment: expect.stringMatching(/^orders as known at /) },
    ]);
  });

  it.each([
    ['a table that is there', { into: 'public.orders' }, /there is such a table/],
    ['a schema that is not', { into: 'nowhere.orders' }, /no schema nowhere/],
    ['no name of a table', { into: 'a.b.c' }, /not the name/],
    ['no time', { into: 'inputs.x', knownAt: 'yesteryear' }, /not a time/],
    ['a time to come', { into: 'inputs.x', knownAt: '2126-01-01' }, /not settled yet/],
  ])('is refused for %s, and nothing is made', async (_what, request, message) => {
    await expect(rebuildInto(install.config, 'orders', request)).rejects.toMatchObject({
      disposition: 'refuse',
      message: expect.stringMatching(message),
    });
    const { rows } = await install.store.query(`select to_regclass('inputs.x') as made`);
    expect(rows).toEqual([{ made: null }]);
  });

  it('is never swapped in, and the command says why', async () => {
    const cli = createCli(
      `import { defineConfig, facts } from 'emend'
       export default defineConfig({ targets: { orders: facts('orders', { key: ['id'] }) } })`,
      environmentOf(install),
    );
    const at = ['--known-at', times[0]!];
    const swapped = await cli.run(['rebuild', 'orders', '--swap', '--reason', 'x', ...at]);
    expect([swapped.code, swapped.stderr]).toEqual([2, expect.stringMatching(/cannot be swapped in: .*forgotten/)]);
    const nowhere = await cli.run(['rebuild', 'orders', ...at]);
    expect([nowhere.code, nowhere.stderr]).toEqual([2, expect.stringMatching(/--into/)]);
    const written = await cli.run(['rebuild', 'orders', ...at, '--into', 'inputs.by_command']);
    expect([written.code, written.stdout]).toEqual([
      0,
      expect.stringMatching(/5 rows of 5 corrections written to "inputs"."by_command"[^]*1 only then[^]*then +2 +2/),
    ]);
  }); // prettier-ignore
});
