import { describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import type { Adopted } from '../../src/pipeline/diverged.ts';
import type { ListedRow } from '../../src/pipeline/list-diverged.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { idsOf } from '../support/capture-harness.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';
import { startSourceServer } from '../support/source-server.ts';
import { createSweep } from '../support/sweep.ts';

const ddl = `
  create table public.orders (id integer primary key, amount integer not null);
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price integer not null)`;
const { targets } = defineConfig({
  targets: {
    orders: facts('public.orders', { key: ['id'] }),
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
  },
});
const config = `
import { defineConfig, facts, timeline } from 'emend'
export default defineConfig({ targets: {
  orders: facts('public.orders', { key: ['id'] }),
  prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
} })`;

function cliOf(install: Install): Cli {
  return createCli(config, environmentOf(install));
}

/** Orders with their id as amount. */
async function order(install: Install, ...ids: number[]): Promise<string[]> {
  const { rows } = await eventually(() =>
    install.source.query<{ id: string }>(
      `insert into corrections.orders (id, amount) select i, i from unnest($1::integer[]) as i returning _id as id`,
      [ids],
    ),
  );
  return rows.map(({ id }) => id);
}

async function price(install: Install, from: string, to: string, amount: number): Promise<string> {
  const { rows } = await eventually(() =>
    install.source.query<{ id: string }>(
      `insert into corrections.prices (product, valid_from, valid_to, price) values ('A', $1, $2, $3) returning _id as id`,
      [from, to, amount],
    ),
  );
  return rows[0]!.id;
}

async function orders({ store }: Install): Promise<number[]> {
  const { rows } = await store.query<{ id: string }>(`select id from public.orders order by id`);
  return rows.map(({ id }) => Number(id));
}

async function prices({ store }: Install): Promise<string[]> {
  const { rows } = await store.query<{ piece: string }>(
    `select valid_from || ' ' || price as piece from public.prices order by valid_from`,
  );
  return rows.map(({ piece }) => piece);
}

async function diverged({ store }: Install): Promise<Record<string, string[]>> {
  const { rows } = await store.query<{ id: string; kind: string }>(
    `select kind, _id as id from emend.diverged where resolution is null order by _id`,
  );
  return {
    reused: rows.filter(({ kind }) => kind === 'reused').map(({ id }) => id),
    lost: rows.filter(({ kind }) => kind === 'lost').map(({ id }) => id),
  };
}

async function problems(install: Install): Promise<string[]> {
  const { problems: found } = await readStatus(install.config);
  return found.map(({ path, problem }) => `${path}: ${problem}`).filter((text) => text.includes('diverged'));
}

async function found(install: Install): Promise<Record<string, number>[]> {
  return (await verify(install.config)).map((each) => ({ ...each.found }));
}

describe('a source that was restored from a copy of its folder', () => {
  it('has its new rows under old numbers named, adopted and kept by command, and all else merged', async () => {
    const server = await startSourceServer();
    const install = await createInstall('diverged restored', { ddl, targets, sourceUrl: server.url });
    const cli = cliOf(install);
    const first = await install.start();
    await order(install, 1, 2);
    await price(install, '2026-01-01', '2026-12-01', 10);
    await install.wait();
    await first.stop();
    await server.backUp();

    const second = await install.start();
    const lost = await order(install, 3, 4, 5);
    lost.push(await price(install, '2026-03-01', '2026-04-01', 11));
    await install.wait();
    await second.stop();
    await server.restore();
    expect(await problems(install)).toEqual([
      `source: diverged: the source is 4 numbers behind the store, and gives numbers out again that the store knows`,
    ]);

    const third = await install.start();
    // the same numbers, one of them in the log of another target
    const reused = await order(install, 30, 40);
    reused.push(await price(install, '2026-06-01', '2026-07-01', 12));
    reused.push(...(await order(install, 50)));
    expect(reused).toEqual(lost);
    await order(install, 60);
    await eventually(async () => expect(await diverged(install)).toEqual({ reused, lost }));
    await eventually(async () => expect(await orders(install)).toEqual([1, 2, 3, 4, 5, 60]));
    expect(await prices(install)).toEqual(['2026-01-01 10', '2026-03-01 11', '2026-04-01 10']);
    expect(await problems(install)).toEqual([
      `targets.orders: diverged: 3 log rows have numbers that the store knows of another row, and so not merged (_id ${reused[0]}, ${reused[1]}, ${reused[3]})`,
      `targets.orders: diverged: 3 merged corrections are no longer in the log (_id ${lost.slice(0, 3).join(', ')})`,
      `targets.prices: diverged: 1 log row has a number that the store knows of another row, and so not merged (_id ${reused[2]})`,
      `targets.prices: diverged: 1 merged correction is no longer in the log (_id ${lost[3]})`,
    ]);
    const listed = await cli.json<ListedRow[]>(['diverged', 'list', '--target', 'prices']);
    expect(listed).toMatchObject([
      { kind: 'reused', _id: reused[2], key: { product: 'A' }, state: 'open' },
      { kind: 'lost', _id: lost[3], key: { product: 'A' }, state: 'open' },
    ]);
    expect(await found(install)).toEqual([
      { not_in_log: 3, other_nonce: 3 },
      { not_in_log: 1, other_nonce: 1 },
    ]);
    // by its number alone, 30 would have been taken for the correction of 3
    await expect(
      undo({ config: install.config, target: 'orders', id: lost[0]!, reason: 'test' }),
    ).rejects.toThrow('the source has lost it');

    const refused = await cli.run(['diverged', 'keep', reused[2]!, '999', '--reason', 'x']);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('999') });
    const adopted = await cli.json<Adopted>(['diverged', 'adopt', '--all', '--reason', 'restored on Monday']);
    expect(adopted.adopted.map(({ _id }) => _id).toSorted()).toEqual(reused.toSorted());
    expect(adopted.gone).toEqual([]);
    await install.wait();
    expect(await orders(install)).toEqual([1, 2, 3, 4, 5, 30, 40, 50, 60]);
    expect(await prices(install)).toEqual([
      '2026-01-01 10',
      '2026-03-01 11',
      '2026-04-01 10',
      '2026-06-01 12',
      '2026-07-01 10',
    ]);
    const { rows: reasons } = await install.store.query<{ reason: string }>(
      `select l._reason as reason from emend.ledger l join emend.diverged d on d.new_id = l._id where d._id = $1`,
      [reused[0]],
    );
    expect(reasons).toEqual([
      { reason: `written again, since number ${reused[0]} was given out twice: restored on Monday` },
    ]);
    expect(await cli.json(['diverged', 'keep', '--all', '--reason', 'they are right'])).toEqual({
      kept: lost,
    });
    expect(await problems(install)).toEqual([]);
    expect(await found(install)).toEqual([{}, {}]);
    // compared from the beginning, what was decided stays decided
    expect(await cli.json(['sweep', '--all'])).toMatchObject({ enqueued: 0, isComplete: true });
    expect(await diverged(install)).toEqual({ reused: [], lost: [] });
    expect(await found(install)).toEqual([{}, {}]);
    await third.stop();
  });

  it('is seen as another one by its log alone, where nothing comes by the stream', async () => {
    const server = await startSourceServer();
    const install = await createInstall('diverged tail', { ddl, targets, sourceUrl: server.url });
    const running = await install.start();
    await order(install, 1);
    await install.wait();
    await running.stop();
    await server.backUp();
    const again = await install.start();
    const lost = await order(install, 2, 3);
    await install.wait();
    await again.stop();
    await server.restore();
    const reused = await order(install, 20);
    // it has overtaken itself: neither its transaction ids nor its identity tell, and the mark is above the new row
    const { rows } = await install.source.query<{ xid: string }>(
      `select pg_snapshot_xmin(pg_current_snapshot()) as xid`,
    );
    await install.store.query(`update emend.sweep set below_xid = $1`, [rows[0]!.xid]);
    const sweep = await createSweep(install);
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ isComplete: true }));
    expect(await diverged(install)).toEqual({ reused, lost });
    expect(sweep.batches).toEqual([]);
    // what comes afterwards is met by the sweep itself, row by row
    reused.push(...(await order(install, 30)));
    const [fresh] = await order(install, 40);
    await eventually(async () => {
      await sweep.tick();
      expect(sweep.batches.flatMap(idsOf)).toContain(fresh);
    });
    expect(await diverged(install)).toEqual({ reused, lost });
    await sweep.leave();
  });
});

it('a standby that was promoted with a lag: what it lost is named, and nothing is passed over in silence', async () => {
  const server = await startSourceServer();
  const install = await createInstall('diverged promoted', { ddl, targets, sourceUrl: server.url });
  const first = await install.start();
  await order(install, 1);
  await install.wait();
  await first.stop();
  const standby = await server.startStandby();
  const second = await install.start();
  await order(install, 2);
  await install.wait();
  await standby.caughtUp();
  await standby.cutOff();
  const numbers = Array.from({ length: 100 }, (_, index) => 1_000 + index);
  const lost = await order(install, ...numbers);
  await install.wait();
  await second.stop();
  await standby.promote();

  // a promoted server skips up to 32 numbers; the others come again
  const written = await order(install, ...numbers.map((number) => number + 1_000));
  const reused = written.filter((id) => lost.includes(id));
  expect(reused.length).toBeGreaterThan(60);
  await install.start();
  await eventually(async () => expect(await diverged(install)).toEqual({ reused, lost }));
  await eventually(async () => {
    const fresh = numbers.slice(reused.length).map((number) => number + 1_000);
    expect(await orders(install)).toEqual([1, 2, ...numbers, ...fresh]);
  });
});

it('rows that a store knows are alike on a source that they were moved to, whatever its counters say', async () => {
  const server = await startSourceServer();
  const install = await createInstall('diverged moved', { ddl, targets });
  const running = await install.start();
  await order(install, 1, 2, 3);
  await install.wait();
  await running.stop();
  const unmerged = await order(install, 4);
  // the rows, as a dump takes them along, with transaction ids far above the counter of the new server
  await install.source.query(`alter table corrections.orders disable trigger user`);
  await install.source.query(`update corrections.orders set _xid = '9000000000'`);
  const { rows } = await install.source.query<{ row: string }>(
    `select to_jsonb(o)::text as row from corrections.orders o`,
  );
  const moved = await createInstall('diverged moved', { ddl, targets, sourceUrl: server.url });
  await moved.source.query(
    `insert into corrections.orders select (jsonb_populate_record(null::corrections.orders, r::jsonb)).* from unnest($1::text[]) as r`,
    [rows.map(({ row }) => row)],
  );
  await moved.source.query(`select setval('corrections._id', 4)`);
  const sweep = await createSweep({
    ...install,
    source: moved.source,
    config: { ...install.config, source: moved.config.source },
  });
  const written = await order(moved, 5);
  await eventually(async () => {
    await sweep.tick();
    // the one that was not merged before, and the one that was written since
    expect(new Set(sweep.batches.flatMap(idsOf))).toEqual(new Set([unmerged[0], written[0]]));
  });
  expect(await diverged(install)).toEqual({ reused: [], lost: [] });
  await sweep.leave();
});
