import { describe, expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { readBackfillStatus } from '../../src/pipeline/backfill-status.ts';
import { listBackfills } from '../../src/pipeline/backfill-report.ts';
import { promote, revert, seal } from '../../src/pipeline/backfill-requests.ts';
import { openBackfill } from '../../src/log/backfill.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';

const ddl = `
  create table public.visits (id integer primary key, customer integer not null);
  create table public.customers (id integer primary key, name text not null);
  alter table public.visits add constraint of_customer foreign key (customer) references public.customers (id)`;

/** The child has the first place in the order of locks, the parent the last; they are stated the other way round too. */
const targets = {
  visits: facts('public.visits', { key: ['id'] }),
  customers: facts('public.customers', { key: ['id'] }),
};

describe('a backfill of rows that refer to each other', async () => {
  const install = await createInstall('backfill foreign keys', { ddl, targets });
  const { source, store, config } = install;
  await install.start();
  const within = { timeoutMs: 20_000 };

  const checked = async (name: string, names: string[], id: number): Promise<void> => {
    await openBackfill(source, { name, targets: names, reason: 'test', logicVersion: 'v1' });
    await source.query(
      `insert into corrections.visits (id, customer, _backfill) values (${id}, ${id}, '${name}')`,
    );
    await source.query(
      `insert into corrections.customers (id, name, _backfill) values (${id}, 'c', '${name}')`,
    );
    expect(await seal(config, name, within)).toMatchObject({ state: 'checked', problem: null });
  };
  const stand = async (id: number): Promise<string> => {
    const { rows } = await store.query<{ stand: string }>(
      `select (select count(*) from public.visits where id = $1) || ' ' || (select count(*) from public.customers where id = $1) as stand`,
      [id],
    );
    return rows[0]!.stand;
  };

  it.each([
    ['child first', ['visits', 'customers'], 1],
    ['parent first', ['customers', 'visits'], 2],
  ])('%s, is promoted and reverted whatever the order of its targets', async (what, names, id) => {
    const name = what.replace(' ', '-');
    await checked(name, names, id);
    expect(await promote(config, name, within)).toMatchObject({ state: 'promoted' });
    expect(await stand(id)).toBe('1 1');
    expect(await revert(config, name, { reason: 'test', ...within })).toMatchObject({
      state: 'reverted',
      problem: null,
    });
    expect(await stand(id)).toBe('0 0');
  });

  it('is not reverted while a live row needs one of its own, says which constraint, and is reverted once that is gone', async () => {
    await checked('needed', ['customers', 'visits'], 3);
    await promote(config, 'needed', within);
    await source.query(`insert into corrections.visits (id, customer) values (30, 3)`);
    await install.wait();
    const refused = await revert(config, 'needed', { reason: 'test', ...within });
    expect(refused).toMatchObject({ state: 'promoted' });
    expect(refused.problem).toMatch(/it is not reverted: .*"of_customer".*; it is tried again/);
    const listed = (await listBackfills(config)).find(({ name }) => name === 'needed');
    expect(listed).toMatchObject({ state: 'promoted', asked: 'reverted', problem: refused.problem });
    expect(await readBackfillStatus(store)).toMatchObject([{ name: 'needed', problem: refused.problem }]);
    expect(await stand(3)).toBe('1 1');

    await source.query(`insert into corrections.visits (id, _op) values (30, 'retract')`);
    await eventually(async () => expect(await stand(3)).toBe('0 0'), { timeoutMs: 45_000 });
    expect((await listBackfills(config)).find(({ name }) => name === 'needed')).toMatchObject({
      state: 'reverted',
      problem: null,
    });
  });
});
