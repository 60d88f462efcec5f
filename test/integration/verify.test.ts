import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { verifyTarget } from '../../src/verify/verify.ts';
import type { Verification } from '../../src/verify/verify.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', {
      key: ['product'],
      period: ['valid_from', 'valid_to'],
      openEnd: '9999-12-31',
    }),
    orders: facts('public.orders', { key: ['id', 'at'] }),
  },
});
const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric(10, 2), tags jsonb);
  create table public.orders (id integer, at timestamptz, amount numeric(6, 2), primary key (id, at));`;

const tables = [
  'public.prices',
  'emend.prices_history',
  'emend.prices_shadow',
  'emend.prices_tombstone',
  'public.orders',
  'emend.orders_history',
  'emend.ledger_recent',
];

/** What is done to the store, or to the log, and what verify finds. */
const damages: readonly { what: string; sql: string; found: Record<string, number> }[] = [
  {
    what: 'a row of the target is deleted',
    sql: `delete from public.prices where product = 'A' and price = 5`,
    found: { missing: 1 },
  },
  {
    what: 'a value is changed',
    sql: `update public.prices set price = 77 where product = 'A' and price = 5`,
    found: { changed: 1 },
  },
  {
    what: 'a value that equals the right one in another form is fine, one in a json is not',
    sql: `update public.prices set tags = '{"n": 2}' where product = 'C'`,
    found: { changed: 1 },
  },
  {
    what: 'a period is made longer',
    sql: `update public.prices set valid_to = valid_to + 2 where product = 'A' and price = 5`,
    found: { changed: 1, overlap: 1 },
  },
  {
    what: 'a start is moved behind its end',
    sql: `update public.prices set valid_from = valid_to + 1 where product = 'A' and price = 5`,
    found: { missing: 1, unexpected: 1, empty: 1 },
  },
  {
    what: 'somebody else wrote a row',
    sql: `insert into public.prices values ('Z', '2026-01-01', '2026-02-01', 1, null, 999999, '2026-01-01')`,
    found: { unexplained: 1 },
  },
  {
    what: 'somebody else wrote a row under the number of another key’s correction',
    sql: `insert into public.prices select 'Z', valid_from, valid_to, price, tags, _version, _known_from from public.prices where product = 'C'`,
    found: { unexplained: 1 },
  },
  {
    what: 'a row stands twice',
    sql: `drop index public.emend_prices_key; insert into public.prices select * from public.prices where product = 'C'`,
    found: { unexpected: 1, overlap: 1 },
  },
  {
    what: 'a row of history is lost',
    sql: `delete from emend.prices_history where ctid = (select min(ctid) from emend.prices_history)`,
    found: { missing: 1 },
  },
  {
    what: 'a time of belief is changed',
    sql: `update emend.prices_history set _known_to = _known_to + interval '1 second' where ctid = (select min(ctid) from emend.prices_history)`,
    found: { changed: 1 },
  },
  { what: 'a tombstone is lost', sql: `delete from emend.prices_tombstone`, found: { missing: 1 } },
  { what: 'a shadow is lost', sql: `delete from emend.prices_shadow`, found: { missing: 1 } },
  {
    what: 'a fact is changed, and another one lost',
    sql: `update public.orders set amount = 0 where id = 1; delete from public.orders where id = 2`,
    found: { changed: 1, missing: 1 },
  },
  {
    what: 'a row of the ledger is lost',
    sql: `delete from emend.ledger_recent where _id = (select _version from public.prices where product = 'C')`,
    found: { not_merged: 1, unexplained: 1 },
  },
];

describe('verify finds what is not as the log says, and repairs it', () => {
  let install: Install;

  beforeAll(async () => {
    install = await createInstall('verify', { ddl, targets });
    const pipeline = await install.start();
    const write = async (sql: string) => {
      await install.source.query(sql);
      await install.wait();
    };
    const price = (values: string) =>
      write(
        `insert into corrections.prices (product, valid_from, valid_to, price, tags, _op) values ${values}`,
      );
    await price(
      `('A', '2026-01-01', 'infinity', 4, null, 'upsert'), ('B', '2026-01-01', 'infinity', 4, null, 'upsert')`,
    );
    // two of one batch: the lower is shadowed by the higher where both are
    await price(
      `('A', '2026-03-01', '2026-04-01', 6, null, 'upsert'), ('A', '2026-03-10', '2026-03-20', 5, null, 'upsert')`,
    );
    await price(`('A', '2026-06-01', '2026-07-01', null, null, 'retract')`);
    await price(`('C', '-infinity', 'infinity', 9, '{"n": 1}', 'upsert')`);
    await write(
      `insert into corrections.orders (id, at, amount) values (1, '2026-01-01 00:00:00.000001+00', 1.5), (2, '2026-01-01', 2.5)`,
    );
    await write(
      `insert into corrections.orders (id, at, amount) values (1, '2026-01-01 00:00:00.000001+00', 10)`,
    );
    // an own lower version: a shadow of a later batch
    await price(`('B', '2026-02-01', '2026-03-01', 8, null, 'upsert')`);
    const { rows } = await install.source.query<{ id: string }>(
      `select max(_id) as id from corrections.prices`,
    );
    await undo({ config: install.config, target: 'prices', id: rows[0]!.id, reason: 'typo' });
    await pipeline.stop();
  });

  const examine = async (repair = false): Promise<Verification[]> =>
    Promise.all(
      install.targets.map((target) =>
        verifyTarget({
          source: install.source,
          store: install.store,
          target,
          keys: null,
          repair,
          graceMs: 0,
          limit: 100,
        }),
      ),
    );
  const found = (verifications: readonly Verification[]) =>
    Object.assign({}, ...verifications.map((each) => each.found)) as Record<string, number>;
  const content = async () =>
    Promise.all(
      tables.map(async (table) => {
        const { rows } = await install.store.query<{ row: string }>(
          `select to_jsonb(t)::text as row from ${table} t`,
        );
        return [table, rows.map(({ row }) => row).sort()];
      }),
    );

  it('finds nothing where nothing was done', async () => {
    const clean = await examine();
    expect(clean.map(({ target, corrections, found: kinds }) => [target, corrections, kinds])).toEqual([
      ['prices', 7, {}],
      ['orders', 3, {}],
    ]);
  });

  it.each(damages)('$what: it is found, named, and repaired as it was', async ({ sql, found: kinds }) => {
    const before = await content();
    await install.store.query(sql);
    expect(await content()).not.toEqual(before);
    expect(found(await examine())).toEqual(kinds);
    const repaired = await examine(true);
    expect(found(repaired)).toEqual({});
    expect(await content()).toEqual(before);
  });

  it('shows both sides of a difference', async () => {
    await install.store.query(`update public.prices set price = 77 where product = 'C'`);
    const [prices] = await examine();
    expect(prices!.differences).toMatchObject([
      {
        kind: 'changed',
        place: 'target',
        log: {
          _op: 'upsert',
          columns: { product: 'C', valid_from: '-infinity', valid_to: 'infinity', price: '9.00' },
        },
        store: { _op: 'upsert', columns: { product: 'C', valid_from: '-infinity', price: '77.00' } },
      },
    ]);
    const other = await verify(install.config, { target: 'prices', key: ['A'] });
    expect([other[0]!.corrections, other[0]!.found]).toEqual([4, {}]);
    const [mended] = await verify(install.config, { target: 'prices', key: ['product=C'], repair: true });
    expect([mended!.found, mended!.repaired]).toEqual([{}, 2]);
  });

  it('what only the store knows any more is named, and never taken out', async () => {
    await install.source.query(`alter table corrections.prices disable trigger user`);
    const { rows } = await install.source.query<{ row: string }>(
      `with gone as (delete from corrections.prices where product = 'C' returning *) select to_jsonb(gone)::text as row from gone`,
    );
    const before = await content();
    expect(found(await examine(true))).toEqual({ not_in_log: 1, unexplained: 1 });
    expect(await content()).toEqual(before);
    // put back with another nonce: the number was given out again by a source that was restored
    await install.source.query(
      `insert into corrections.prices select (jsonb_populate_record(null::corrections.prices, $1::jsonb || '{"_nonce": 1}')).*`,
      [rows[0]!.row],
    );
    expect(found(await examine(true))).toEqual({ other_nonce: 1 });
    await install.source.query(
      `update corrections.prices set _nonce = ($1::jsonb ->> '_nonce')::bigint where product = 'C'`,
      [rows[0]!.row],
    );
    expect(found(await examine())).toEqual({});
  });

  it('a correction that was taken back does not come back by a repair when the record of that is lost', async () => {
    const before = await content();
    const { rows } = await install.store.query<{ row: string }>(
      `with gone as (delete from emend.undone returning *) select to_jsonb(gone)::text as row from gone`,
    );
    const kinds = found(await examine(true));
    expect(kinds).toMatchObject({ not_undone: 1 });
    expect(await content()).toEqual(before);
    await install.store.query(
      `insert into emend.undone select (jsonb_populate_record(null::emend.undone, $1::jsonb)).*`,
      [rows[0]!.row],
    );
    expect(found(await examine())).toEqual({});
  });

  it('a correction that was never merged is named, and its row stays away from what verify compares', async () => {
    await install.source.query(`insert into corrections.orders (id, at, amount) values (3, '2026-01-01', 1)`);
    expect(found(await examine(true))).toEqual({ not_merged: 1 });
    const pipeline = await install.start();
    await install.wait();
    expect(found(await examine())).toEqual({});
    await pipeline.stop();
  });

  it('the command exits with 1, says what it found, and with 0 once it is repaired', async () => {
    const cli = createCli(
      `import { defineConfig, timeline } from 'emend'
       export default defineConfig({ targets: { prices: timeline('prices', { key: ['product'], period: ['valid_from', 'valid_to'], openEnd: '9999-12-31' }) } })`,
      environmentOf(install),
    );
    await install.store.query(`update public.prices set price = 77 where product = 'C'`);
    const bad = await cli.run(['verify', 'prices']);
    expect(bad.code).toBe(1);
    expect(bad.stdout).toMatch(
      /! 1 changed: rows that are not as the log says[^]*log +upsert +C[^]*store +upsert +C.* 77\.00/,
    );
    expect((await cli.run(['verify', '--repair'])).stdout).toMatch(
      /prices: as the log says[^]*2 rows were repaired[^]* 77\.00/,
    );
    expect((await cli.run(['verify', 'prices', '--key', 'C'])).code).toBe(0);
    const refused = await cli.run(['verify', '--key', 'C']);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringMatching(/none is given/)]);
  });
});

describe('verify works while the pipeline runs', () => {
  it('finds nothing while rows are written, merged, set aside and discarded', async () => {
    const install = await createInstall('verify running', {
      ddl: `${ddl}
        create function public.refuse() returns trigger language plpgsql as
          $$ begin if new.price < 0 then raise exception 'no price below zero'; end if; return new; end $$;
        create trigger refuse before insert on public.prices for each row execute function public.refuse();`,
      targets,
    });
    await install.start();
    let writing = true;
    const writer = (async () => {
      for (let turn = 0; writing; turn += 1) {
        await install.source.query(
          `insert into corrections.prices (product, valid_from, valid_to, price)
           select chr(65 + (random() * 9)::int), d, d + 1 + (random() * 50)::int, case when n = 7 and $1 % 10 = 0 then -1 else random() * 100 end
           from generate_series(1, 20) n cross join lateral (select date '2026-01-01' + (random() * 300)::int + 0 * n as d) as start`,
          [turn],
        );
        await sleep(50);
      }
    })();
    try {
      for (let round = 0; round < 6; round += 1) {
        const [prices] = await verify(install.config, { target: 'prices' });
        expect(prices!.found, `round ${round}, ${prices!.corrections} corrections`).toEqual({});
      }
    } finally {
      writing = false;
      await writer;
    }
    await install.wait();
    const [prices] = await verify(install.config, { target: 'prices' });
    const { rows } = await install.store.query<{ merged: string; aside: string }>(
      `select (select count(*) from emend.ledger) as merged, (select count(*) from emend.dead_letter_open) as aside`,
    );
    expect([prices!.found, String(prices!.corrections)]).toEqual([{}, rows[0]!.merged]);
    expect(Number(rows[0]!.aside), 'rows that were set aside meanwhile').toBeGreaterThan(0);
  });
});
