import { randomBytes } from 'node:crypto';
import { renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { createPool } from '../../src/db/pool.ts';
import { archive } from '../../src/pipeline/archive.ts';
import { rebuild } from '../../src/pipeline/rebuild.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { rebuildTarget } from '../../src/verify/rebuild.ts';
import { createFolder } from '../support/archive.ts';
import { carryOutAll } from '../support/backfill-work.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', {
      key: ['product'],
      period: ['valid_from', 'valid_to'],
      openEnd: '9999-12-31',
    }),
    orders: facts('public.orders', { key: ['id', 'at'] }),
    customers: timeline('public.customers', {
      key: ['customer'],
      period: ['since', 'valid_to'],
      mode: 'until_next',
    }),
    items: timeline('public.items', { key: ['item'], period: ['valid_from', 'valid_to'] }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric(10, 2), tags jsonb);
  create table public.orders (id integer, at timestamptz, amount numeric(6, 2), primary key (id, at));
  create table public.customers (customer text not null, since timestamptz not null, valid_to timestamptz not null, city text);
  create table public.items (item numeric not null, valid_from date not null, valid_to date not null, name text);
  insert into public.items select n, '2020-01-01', 'infinity', 'item ' || n from generate_series(1, 5) n;`;

const names = ['prices', 'orders', 'customers', 'items'] as const;
const tables = [
  ...names.map((name) => `public.${name}`),
  ...names.flatMap((name) => ['history', 'shadow', 'tombstone'].map((suffix) => `emend.${name}_${suffix}`)),
  'emend.ledger',
  'emend.undone',
];

/** What is done to the store by hand. */
const damages: readonly { what: string; sql: string }[] = [
  { what: 'the owner emptied the table', sql: `truncate public.prices, public.orders, public.customers, public.items` },
  {
    what: 'target and record of it are empty',
    sql: names.map((name) => `truncate public.${name}, emend.${name}_history, emend.${name}_shadow, emend.${name}_tombstone`).join('; '),
  },
  { what: 'rows were changed by hand', sql: `update public.prices set price = 77; update public.customers set city = 'Bonn'; update public.orders set amount = 0; update public.items set name = 'x'` },
  {
    what: 'rows were added by hand',
    sql: `insert into public.prices select 'Z' || n, '2026-01-01', '2026-02-01', n, null, 900000 + n, '2026-01-01' from generate_series(1, 50) n;
      insert into public.orders select 900 + n, '2026-01-01', n, _version, _known_from from public.orders cross join generate_series(1, 9) n where id = 1`,
  },
  {
    what: 'periods and starts were moved',
    sql: `update public.prices set valid_to = valid_to - 1 where valid_to <> '9999-12-31'; update public.customers set since = since - interval '1 day', _version = _version + 1`,
  },
  {
    what: 'the history is damaged: rows lost, times of belief changed, rows doubled',
    sql: names.map((name) => `
      delete from emend.${name}_history where ctid = (select min(ctid) from emend.${name}_history);
      update emend.${name}_history set _known_to = _known_to + interval '1 second';
      insert into emend.${name}_shadow select * from emend.${name}_shadow`).join('; '),
  },
  { what: 'shadows and tombstones are lost', sql: names.map((name) => `delete from emend.${name}_shadow; delete from emend.${name}_tombstone`).join('; ') },
  {
    what: 'the ledger lost rows of which the store has the effect',
    sql: `delete from emend.ledger_recent l using public.prices p where l._id = p._version and p.product = 'C'; delete from public.prices where product = 'A'`,
  },
  { what: 'the unique index is gone, and rows stand twice', sql: `drop index public.emend_prices_key; insert into public.prices select * from public.prices` },
]; // prettier-ignore

describe('a rebuild', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('rebuild', { ddl, targets, adopt: ['items'] });
    await writeHistory(install);
  });

  const content = () => contentOf(install);

  /** Of all targets. */
  async function rebuildAll(swap: boolean) {
    const results = [];
    for (const target of install.targets)
      results.push(
        await rebuildTarget({
          ...install,
          target,
          swap,
          reason: 'a test',
          logic: 'test',
          // nothing is on its way
          graceMs: 0,
          limit: 100,
        }),
      );
    return results;
  }

  it('of what is right finds nothing, and writes nothing', async () => {
    const before = await content();
    const rows = await positions(install);
    for (const swap of [false, true]) {
      const results = await rebuildAll(swap);
      expect(results).toMatchObject(
        names.map((target) => ({ target, found: {}, keys: 0, written: { takenOut: 0, putIn: 0 } })),
      );
      expect(results.map(({ corrections }) => corrections)).toEqual([10, 3, 5, 6]);
    }
    expect(await content()).toEqual(before);
    expect(await positions(install), 'where the rows are').toEqual(rows);
  });

  it.each(damages)('$what: it is told, and put right when that is asked for', async ({ sql }) => {
    const before = await content();
    await install.store.query(sql);
    const damaged = await content();
    expect(damaged).not.toEqual(before);

    const compared = await rebuildAll(false);
    expect(compared.reduce((sum, { keys }) => sum + keys, 0)).toBeGreaterThan(0);
    expect(await content(), 'after it only compared').toEqual(damaged);

    const swapped = await rebuildAll(true);
    expect(swapped.map(({ leftAlone }) => leftAlone)).toEqual([0, 0, 0, 0]);
    expect(await content()).toEqual(before);
    expect((await verify(install.config)).map(({ found }) => found)).toEqual([{}, {}, {}, {}]);
    expect(await leftovers(install)).toEqual([]);
  });

  it('leaves alone what only the store knows, and puts the rest right', async () => {
    const before = await content();
    await install.source.query(`alter table corrections.prices disable trigger user`);
    const { rows } = await install.source.query<{ row: string }>(
      `with gone as (delete from corrections.prices where product = 'C' returning *) select to_jsonb(gone)::text as row from gone`,
    );
    await install.store.query(`delete from public.prices where product = 'A'`);
    const result = await rebuild(install.config, 'prices', { swap: true, reason: 'a test' });
    expect(result).toMatchObject({ found: { not_in_log: 1, unexplained: 1 }, keys: 2, leftAlone: 1 });
    expect(await content()).toEqual(before);
    await install.source.query(
      `insert into corrections.prices select (jsonb_populate_record(null::corrections.prices, $1)).*`,
      [rows[0]!.row],
    );
    await install.source.query(`alter table corrections.prices enable trigger user`);
  });

  it('takes nothing back and leaves the old rows where a trigger of the table changes what is written', async () => {
    await install.store.query(
      `create function public.dearer() returns trigger language plpgsql as $$ begin new.price := new.price + 1; return new; end $$;
       update public.prices set price = 77;
       create trigger dearer before insert on public.prices for each row execute function public.dearer()`,
    );
    const damaged = await content();
    await expect(rebuild(install.config, 'prices', { swap: true, reason: 'a test' })).rejects.toMatchObject({
      code: 'invariant_broken',
    });
    expect(await content()).toEqual(damaged);
    await install.store.query(`drop trigger dearer on public.prices`);
    await rebuild(install.config, 'prices', { swap: true, reason: 'a test' });
    expect((await verify(install.config, { target: 'prices' }))[0]!.found).toEqual({});
  });

  it('compares without the right to create tables, and swaps with it only, which it names', async () => {
    const role = `compares_${randomBytes(4).toString('hex')}`;
    await install.store.query(
      `create role ${role}; grant usage on schema emend to ${role}; grant all on all tables in schema emend to ${role}; grant select on all tables in schema public to ${role}`,
    );
    const store = createPool({ url: install.config.store.url, applicationName: 'emend test', settings: { role } });
    try {
      const [prices] = install.targets;
      const request = { source: install.source, store, target: prices!, reason: 'a test', logic: 'test', graceMs: 0, limit: 1 };
      expect(await rebuildTarget({ ...request, swap: false })).toMatchObject({ found: {} });
      await expect(rebuildTarget({ ...request, swap: true })).rejects.toMatchObject({
        code: 'permission_missing',
        remedy: expect.stringMatching(/grant create on schema emend/),
      });
    } finally {
      await store.end();
      await install.store.query(`drop owned by ${role}; drop role ${role}`);
    }
    const { rows } = await install.store.query(`select outcome, problem from emend.rebuild order by id desc limit 1`);
    expect(rows).toEqual([{ outcome: 'failed', problem: 'permission_missing' }]);
  }); // prettier-ignore

  it(
    'the command tells, exits with 1 until it is put right, and keeps a record',
    { timeout: 240_000 },
    async () => {
      const cli = cliOf(install);
      await install.store.query(`update public.prices set price = 77 where product = 'C'`);
      const told = await cli.run(['rebuild', 'prices']);
      expect([told.code, told.stdout]).toEqual([
        1,
        expect.stringMatching(
          /! 1 changed[^]*log +upsert +C[^]*store +upsert +C.* 77\.00[^]*1 key differs; nothing has been changed[^]*--swap --reason/,
        ),
      ]);
      const unreasoned = await cli.run(['rebuild', 'prices', '--swap']);
      expect([unreasoned.code, unreasoned.stderr]).toEqual([2, expect.stringMatching(/reason/)]);
      const swapped = await cli.run(['rebuild', 'prices', '--swap', '--reason', 'somebody wrote 77']);
      expect([swapped.code, swapped.stdout]).toEqual([
        0,
        expect.stringMatching(/1 key is as the log says now: 1 row taken out, 1 put in, all at once/),
      ]);
      expect((await cli.run(['rebuild', 'prices'])).code).toBe(0);
      const [last, done] = await cli.json<Record<string, unknown>[]>(['rebuilds', '--target', 'prices']);
      expect(last).toMatchObject({ outcome: 'compared', reason: null, differed: null });
      expect(done).toMatchObject({
        outcome: 'swapped',
        reason: 'somebody wrote 77',
        differed: '1',
        taken_out: '1',
        put_in: '1',
        corrections: '10',
        problem: null,
      });
      expect((await cli.run(['rebuilds'])).stdout).toMatch(/swapped .* somebody wrote 77/);
      const idle = await cli.run(['rebuild', 'prices', '--swap', '--reason', 'to be sure']);
      expect([idle.code, idle.stdout]).toEqual([
        0,
        expect.stringContaining('nothing differed, and nothing was swapped'),
      ]);
      expect((await cli.run(['rebuilds'])).stdout).toMatch(/nothing differed .* to be sure/);
    },
  );
});

describe('a rebuild of a log whose rows were moved to files', () => {
  it('reads the files, where they are or are said to be, and changes nothing while it cannot', async () => {
    const install = await createInstall('rebuild archive', { ddl, targets, adopt: ['items'] });
    await writeHistory(install);
    const folder = createFolder();
    const [moved] = await archive(install.config, { target: 'prices', before: new Date().toISOString(), to: folder });
    expect(moved!.rows).toBeGreaterThan(5);
    const right = await contentOf(install);

    await install.store.query(`truncate public.prices, emend.prices_history`);
    expect(await rebuild(install.config, 'prices', swap)).toMatchObject({ leftAlone: 0 });
    expect(await contentOf(install)).toEqual(right);

    const elsewhere = join(createFolder(), 'moved');
    renameSync(dirname(moved!.manifest!), elsewhere);
    await install.store.query(`update public.prices set price = 77`);
    const damaged = await contentOf(install);
    expect((await rebuild(install.config, 'prices')).unread).toHaveLength(1);
    await expect(rebuild(install.config, 'prices', swap)).rejects.toMatchObject({ code: 'archive_unreadable' });
    expect(await contentOf(install)).toEqual(damaged);
    const cli = cliOf(install);
    const into = ['rebuild', 'prices', '--into', 'public.prices_known'];
    const unread = await cli.run(into);
    expect(unread).toMatchObject({ code: 1, stdout: expect.stringContaining(`taken for what the store has: ${moved!.files[0]!} cannot be read`) });
    expect(unread.stdout).not.toContain('log and store do not have alike');
    for (const option of ['--archive', '--from'])
      expect(await cli.run(['rebuild', 'prices', '--into', `public.prices_${option.slice(2)}`, option, elsewhere])).toMatchObject({ code: 0 });
    const manifest = join(elsewhere, basename(moved!.manifest!));
    expect(await rebuild(install.config, 'prices', { ...swap, archives: [manifest] })).toMatchObject({ leftAlone: 0, unread: [] });
    expect(await contentOf(install)).toEqual(right);
  });
}); // prettier-ignore

const swap = { swap: true, reason: 'a test' };

function cliOf(install: Install): Cli {
  return createCli(
    `import { defineConfig, timeline } from 'emend'
     export default defineConfig({ targets: { prices: timeline('prices', { key: ['product'], period: ['valid_from', 'valid_to'], openEnd: '9999-12-31' }) } })`,
    environmentOf(install),
  );
}

/** Every kind of history: all of it is merged when this returns. */
async function writeHistory(install: Install): Promise<void> {
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
  await price(`('B', '2026-02-01', '2026-03-01', 8, null, 'upsert')`);
  await write(
    `insert into corrections.orders (id, at, amount) values (1, '2026-01-01 00:00:00.000001+00', 1.5), (2, '2026-01-01', 2.5)`,
  );
  await write(
    `insert into corrections.orders (id, at, amount) values (1, '2026-01-01 00:00:00.000001+00', 10)`,
  );
  const city = (values: string) =>
    write(`insert into corrections.customers (customer, since, city, _op) values ${values}`);
  await city(`('K', '2026-01-01', 'Köln', 'upsert'), ('K', '2026-05-01', 'Ulm', 'upsert')`);
  await city(`('K', '2026-03-01', 'Trier', 'upsert'), ('L', '2026-01-01', 'Jena', 'upsert')`);
  await city(`('K', '2026-03-01', null, 'withdraw')`);
  await write(
    `insert into corrections.items (item, valid_from, valid_to, name) values (1.0, '2026-01-01', '2026-02-01', 'corrected')`,
  );
  const { rows: last } = await install.source.query<{ id: string }>(
    `select max(_id) as id from corrections.prices`,
  );
  await undo({ config: install.config, target: 'prices', id: last[0]!.id, reason: 'typo' });
  await undo({ config: install.config, target: 'items', id: '-2', reason: 'never was' });
  await pipeline.stop();
  const rowsOf = {
    kept: `('A', '2026-02-10', '2026-03-15', 11, $1)`,
    'taken-back': `('B', '2026-02-10', '2026-03-15', 11, $1), ('D', '2026-02-10', '2026-03-15', 12, $1)`,
  };
  for (const [name, rows] of Object.entries(rowsOf)) {
    await install.source.query(`select corrections.open_backfill($1, '{prices}', 'a test', 'v1')`, [name]);
    await install.source.query(
      `insert into corrections.prices (product, valid_from, valid_to, price, _backfill) values ${rows}`,
      [name],
    );
    await install.source.query(`select corrections.seal_backfill($1)`, [name]);
    await install.source.query(`select corrections.promote_backfill($1)`, [name]);
    await carryOutAll(install, name);
  }
  await install.source.query(`select corrections.revert_backfill('taken-back', 'wrong')`);
  await carryOutAll(install, 'taken-back');
}

async function contentOf({ store }: Install): Promise<[table: string, rows: string[]][]> {
  return Promise.all(
    tables.map(async (table): Promise<[string, string[]]> => {
      const { rows } = await store.query<{ row: string }>(`select to_jsonb(t)::text as row from ${table} t`);
      return [table, rows.map(({ row }) => row).sort()];
    }),
  );
}

/** Rows that are written again have another place. */
async function positions({ store }: Install): Promise<string[]> {
  const { rows } = await store.query<{ place: string }>(
    names.map((name) => `select '${name}' || ctid::text as place from public.${name}`).join(' union all '),
  );
  return rows.map(({ place }) => place).sort();
}

async function leftovers({ store }: Install): Promise<unknown[]> {
  const { rows } = await store.query(
    `select relname from pg_class where relname like '%rebuilt%' union all select holder from emend.fence union all select holder from emend.fence_of`,
  );
  return rows;
}
