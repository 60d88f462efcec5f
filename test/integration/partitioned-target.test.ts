import { beforeAll, expect, it } from 'vitest';
import { rebuild } from '../../src/pipeline/rebuild.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { expectModel } from '../faults/compare.ts';
import { targets } from '../faults/targets.ts';
import { runWriter } from '../faults/writer.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { transactionsOf } from '../support/transactions.ts';

/** By the key's hash, and by the period, so that a piece that is split has its parts in several partitions. */
const ddl = `
  create table public.f (k text primary key, v text) partition by hash (k);
  create table public.f_0 partition of public.f for values with (modulus 2, remainder 0);
  create table public.f_1 partition of public.f for values with (modulus 2, remainder 1);
  create table public.o (k text not null, f date not null, t date not null, v text, primary key (k, f)) partition by range (f);
  create table public.o_early partition of public.o for values from (minvalue) to ('2020-01-08');
  create table public.o_late partition of public.o for values from ('2020-01-08') to (maxvalue);
  create table public.u (k text not null, f date not null, t date not null, v text, primary key (k, f)) partition by hash (k);
  create table public.u_0 partition of public.u for values with (modulus 3, remainder 0);
  create table public.u_1 partition of public.u for values with (modulus 3, remainder 1);
  create table public.u_2 partition of public.u for values with (modulus 3, remainder 2);`;

let install: Install;
beforeAll(async () => {
  install = await createInstall('partitioned', { ddl, targets });
});

async function rowsOf(...tables: string[]): Promise<unknown[]> {
  const read = tables.map((table) =>
    install.store.query(`select t::text as row from public.${table} t order by 1`),
  );
  return (await Promise.all(read)).flatMap(({ rows }) => rows);
}

async function isVerified(): Promise<void> {
  const verified = await verify(install.config);
  expect(verified.map(({ found }) => found)).toEqual([{}, {}, {}]);
}

it('corrections of a partitioned target end as the model says, also where pieces go over partitions', async () => {
  const pipeline = await install.start();
  const committed = await Promise.all(
    [1, 2].map((seed) =>
      runWriter(install.config.source.url, 60, transactionsOf(seed, 30), performance.now() + 60_000),
    ),
  );
  await install.wait();
  await pipeline.stop();
  for (const partition of ['f_0', 'f_1', 'o_early', 'o_late', 'u_0', 'u_1', 'u_2'])
    expect(await rowsOf(partition)).not.toEqual([]);
  await expectModel({ ...install, atomicRows: 1_000, committed: committed.flat(), backfills: new Map() });
  await isVerified();
});

it('a backfill over all partitions is promoted and reverted, and leaves the target as it was', async () => {
  const pipeline = await install.start();
  const values = 'k, v, f, t';
  const asked = (sql: string): Promise<unknown> => install.source.query(sql);
  const reaches = (state: string): Promise<void> =>
    eventually(async () => {
      const { rows } = await install.store.query(`select state, problem from emend.backfill`);
      expect(rows).toEqual([{ state, problem: null }]);
    });
  const before = (await install.store.query(`select ${values} from public.o order by k, f`)).rows;
  await asked(`select corrections.open_backfill('all', array['o'], 'a test', 'v1', '{}', '{}', '{}')`);
  await asked(
    `insert into corrections.o (k, v, f, t, _backfill) select 'k' || n, 'new', '2020-01-03', '2020-01-12', 'all' from generate_series(0, 59) n`,
  );
  await asked(`select corrections.seal_backfill('all')`);
  await reaches('checked');
  await asked(`select corrections.promote_backfill('all', 'looks right', '{}')`);
  await reaches('promoted');
  const { rows } = await install.store.query(
    `select count(*) as keys from public.o where v = 'new' and f <= '2020-01-10' and t > '2020-01-10'`,
  );
  expect(rows).toEqual([{ keys: '60' }]);
  await isVerified();
  await asked(`select corrections.revert_backfill('all', 'wrong after all')`);
  await reaches('reverted');
  expect((await install.store.query(`select ${values} from public.o order by k, f`)).rows).toEqual(before);
  await isVerified();
  await pipeline.stop();
});

it('what is missing in a partition is found by verify, and comes back by a rebuild', async () => {
  const before = await rowsOf('u_0', 'u_1', 'u_2');
  await install.store.query(`truncate public.u_1`);
  const found = await verify(install.config, { target: 'u' });
  expect(found.map((each) => each.found)).not.toEqual([{}]);
  await rebuild(install.config, 'u', { swap: true, reason: 'a partition was emptied' });
  await isVerified();
  expect(await rowsOf('u_0', 'u_1', 'u_2')).toHaveLength(before.length);
});
