import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { createMerge } from '../../src/merge/merge.ts';
import { adoptReused, keepLost } from '../../src/pipeline/diverged.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { idsOf } from '../support/capture-harness.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { batchOf, logRows, noAbort, silentLog } from '../support/store.ts';
import { createSweep } from '../support/sweep.ts';

const { targets } = defineConfig({
  targets: {
    orders: facts('public.orders', { key: ['id'] }),
    stock: facts('public.stock', { key: ['item'], version: 'seq' }),
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    levels: timeline('public.levels', { key: ['sensor'], period: ['since', 'until'], mode: 'until_next' }),
  },
});
const ddl = `
  create table public.orders (id integer primary key, amount integer check (amount > 0));
  create table public.stock (item text primary key, seq integer not null, pieces integer);
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price integer);
  create table public.levels (sensor text not null, since date not null, until date not null, level integer)`;
const names = Object.keys(targets) as (keyof typeof targets)[];

/** Writes a row and returns its number and its nonce. */
async function write(
  { source }: Install,
  target: keyof typeof targets,
  row: object,
): Promise<{ id: string; nonce: string }> {
  const { rows } = await source.query<{ id: string; nonce: string }>(
    `insert into corrections.${target} (${Object.keys(row).join(', ')})
     select ${Object.keys(row)
       .map((name) => `r.${name}`)
       .join(', ')} from jsonb_populate_record(null::corrections.${target}, $1::jsonb) as r
     returning _id as id, _nonce as nonce`,
    [JSON.stringify(row)],
  );
  return rows[0]!;
}

/** What a source that was restored does: rows are gone, and their numbers come again. Returns the rows. */
async function lose({ source }: Install, ...ids: string[]): Promise<Map<string, string[]>> {
  const gone = new Map<string, string[]>();
  for (const target of names) {
    await source.query(`alter table corrections.${target} disable trigger user`);
    const { rows } = await source.query<{ row: string }>(
      `with gone as (delete from corrections.${target} where _id = any($1::bigint[]) returning *) select to_jsonb(gone)::text as row from gone`,
      [ids],
    );
    await source.query(`alter table corrections.${target} enable trigger user`);
    if (rows.length > 0)
      gone.set(
        target,
        rows.map(({ row }) => row),
      );
  }
  return gone;
}

async function bringBack({ source }: Install, gone: ReadonlyMap<string, string[]>): Promise<void> {
  for (const [target, rows] of gone) {
    await source.query(
      `insert into corrections.${target} select (jsonb_populate_record(null::corrections.${target}, r::jsonb)).* from unnest($1::text[]) as r`,
      [rows],
    );
  }
}

async function giveOutFrom({ source }: Install, id: string): Promise<void> {
  await source.query(`select setval('corrections._id', $1, false)`, [id]);
}

/** Log and ledger, compared from the beginning by a sweep without a queue; returns what it would send. */
async function compare(install: Install): Promise<string[]> {
  await install.store.query(`update emend.sweep_round set asked_at = clock_timestamp(), asked_all = true`);
  const sweep = await createSweep(install);
  await eventually(async () => expect(await sweep.tick()).toMatchObject({ isComplete: true }));
  await sweep.leave();
  return sweep.batches.flatMap(idsOf);
}

async function record({ store }: Install): Promise<string[]> {
  const { rows } = await store.query<{ row: string }>(
    `select concat_ws(' ', kind, _id, resolution) as row from emend.diverged order by kind, _id`,
  );
  return rows.map(({ row }) => row);
}

describe('a merge that meets a number which the ledger has of another row', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('diverged merge', { ddl, targets });
  });

  it.each([
    ['orders', { id: 1, amount: 1 }, { id: 2, amount: 2 }],
    ['stock', { item: 'A', seq: 1, pieces: 1 }, { item: 'A', seq: 2, pieces: 2 }],
    [
      'prices',
      { product: 'A', valid_from: '2026-01-01', valid_to: '2026-02-01', price: 1 },
      { product: 'A', valid_from: '2026-01-01', valid_to: '2026-03-01', price: 2 },
    ],
    [
      'levels',
      { sensor: 'A', since: '2026-01-01', level: 1 },
      { sensor: 'A', since: '2026-01-02', level: 2 },
    ],
  ])('%s: does not merge it, and names it', async (name, one, other) => {
    const target = install.targets.find((each) => each.name === name)!;
    const handle = await createMerge({ pool: install.store, targets: install.targets, log: silentLog });
    const id = 1_000 + names.indexOf(name as keyof typeof targets);
    await handle(batchOf(logRows(target, [{ _id: id, _nonce: 1, ...one }])), noAbort);
    const content = () => install.store.query(`select * from public.${name}`).then(({ rows }) => rows);
    const before = await content();
    const again = logRows(target, [
      { _id: id, _nonce: 2, ...other },
      { _id: id, _nonce: 1, ...one },
    ]);
    await handle(batchOf(again), noAbort);
    await handle(batchOf(again), noAbort);
    expect(await content()).toEqual(before);
    expect((await record(install)).filter((row) => row.includes(String(id)))).toEqual([`reused ${id}`]);
  });
});

it('verify folds around what the source lost, of every kind of target, and reports it until it is kept', async () => {
  const install = await createInstall('diverged fold', { ddl, targets });
  const pipeline = await install.start();
  const price = (valid_from: string, valid_to: string, values: object) =>
    write(install, 'prices', { product: 'A', valid_from, valid_to, ...values });
  await write(install, 'orders', { id: 1, amount: 1 });
  const lost = [
    await write(install, 'orders', { id: 1, amount: 2 }),
    await write(install, 'stock', { item: 'A', seq: 5, pieces: 5 }),
    await price('2026-01-01', '2026-09-01', { price: 10 }),
    await price('2026-03-01', '2026-05-01', { _op: 'retract' }),
    await write(install, 'levels', { sensor: 'A', since: '2026-02-01', level: 2 }),
    await write(install, 'levels', { sensor: 'A', since: '2026-04-01', _op: 'retract' }),
  ].map(({ id }) => id);
  await write(install, 'orders', { id: 1, amount: 3 });
  await write(install, 'stock', { item: 'A', seq: 4, pieces: 4 });
  await price('2026-04-01', '2026-06-01', { price: 11 });
  await price('2026-08-01', '2026-10-01', { price: 12 });
  await write(install, 'levels', { sensor: 'A', since: '2026-01-01', level: 1 });
  await write(install, 'levels', { sensor: 'A', since: '2026-04-01', level: 4 });
  await install.wait();
  await pipeline.stop();
  await lose(install, ...lost);
  expect(await compare(install)).toEqual([]);
  expect(await record(install)).toEqual(lost.map((id) => `lost ${id}`));
  const found = async () => (await verify(install.config)).map((each) => ({ ...each.found }));
  expect(await found()).toEqual([1, 1, 2, 2].map((rows) => ({ not_in_log: rows })));
  await keepLost(install.config, { ids: [], all: true }, 'they were right');
  expect(await found()).toEqual([{}, {}, {}, {}]);
  // damage of the rest of the key is still seen, and not repaired by what is only known from the store
  await install.store.query(`update public.prices set price = 99 where price = 12`);
  expect((await found())[2]).toMatchObject({ changed: 1 });
  await verify(install.config, { target: 'prices', repair: true });
  expect((await found())[2]).toMatchObject({ changed: 1 });
});

it('a source that has its lost rows back, as after a return to the old server, is diverged no longer', async () => {
  const install = await createInstall('diverged back', { ddl, targets });
  const pipeline = await install.start();
  const { id } = await write(install, 'orders', { id: 1, amount: 1 });
  await install.wait();
  await pipeline.stop();
  const gone = await lose(install, id);
  await giveOutFrom(install, id);
  const other = await write(install, 'orders', { id: 2, amount: 2 });
  expect(other.id).toBe(id);
  expect(await compare(install)).toEqual([]);
  expect(await record(install)).toEqual([`lost ${id}`, `reused ${id}`]);
  await lose(install, id);
  await bringBack(install, gone);
  expect(await compare(install)).toEqual([]);
  expect(await record(install)).toEqual([]);
});

it('what was adopted, and not noted since a connection broke, is not written a second time', async () => {
  const install = await createInstall('diverged twice', { ddl, targets });
  const before = await install.start();
  const { id } = await write(install, 'orders', { id: 1, amount: 1 });
  const { id: last } = await write(install, 'orders', { id: 9, amount: 9 });
  await install.wait();
  await before.stop();
  await lose(install, id, last);
  await giveOutFrom(install, id);
  const reused = await write(install, 'orders', { id: 2, amount: 2, _reason: 'a better one' });
  expect(reused.id).toBe(id);
  // read your own write: its number is in the store, and it is not
  const waited = waitUntilMerged({ config: install.config, timeoutMs: 20_000 });
  const pipeline = await install.start();
  expect(await waited).toMatchObject({ rows: 1, setAside: 1 });
  await eventually(async () => expect(await record(install)).toContain(`lost ${last}`));
  const first = await adoptReused(install.config, { ids: [id] }, 'restored');
  // under a number that the store does not know
  expect(first.adopted.map(({ new_id }) => BigInt(new_id) > BigInt(last))).toEqual([true]);
  await install.store.query(
    `update emend.diverged set resolution = null, new_id = null where kind = 'reused'`,
  );
  expect(await adoptReused(install.config, { ids: [id] }, 'restored')).toEqual(first);
  await install.wait();
  const { rows } = await install.source.query(`select id, _reason from corrections.orders order by _id`);
  expect(rows).toEqual([
    { id: '2', _reason: 'a better one' },
    {
      id: '2',
      _reason: `written again, since number ${id} was given out twice: restored; first written because: a better one`,
    },
  ]);
  await expect(adoptReused(install.config, { ids: [id] }, 'again')).rejects.toMatchObject({
    code: 'correction_invalid',
  });
  await expect(adoptReused(install.config, { ids: [], all: true }, ' ')).rejects.toMatchObject({
    code: 'bad_arguments',
  });
  await pipeline.stop();
});

it('a row that has the number of one that was set aside is not taken for it', async () => {
  const install = await createInstall('diverged aside', { ddl, targets });
  const pipeline = await install.start();
  await install.store.query(`alter table public.orders add check (amount < 100)`);
  const { id } = await write(install, 'orders', { id: 1, amount: 100 });
  await install.wait();
  await pipeline.stop();
  await lose(install, id);
  await giveOutFrom(install, id);
  const other = await write(install, 'orders', { id: 2, amount: 2 });
  expect(other.id).toBe(id);
  expect(await compare(install)).toEqual([id]);
});
