import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import type { DeadLetter, Retried } from '../../src/pipeline/dead.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { batchOf, noAbort, silentLog } from '../support/store.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createMerge } from '../../src/merge/merge.ts';
import type { LogRows } from '../../src/change/batch.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';

const { targets } = defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } });
const config = `
import { defineConfig, facts } from 'emend'
export default defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } })
`;

describe('what was set aside can be retried and discarded, and stays on record', () => {
  let install: Install;
  let cli: Cli;

  beforeAll(async () => {
    install = await createInstall('dead letter commands', {
      ddl: `
        create table public.orders (id integer primary key, amount numeric);
        create function public.refuse() returns trigger language plpgsql as
          $$ begin if new.amount < 0 then raise exception 'no amount below zero'; end if; return new; end $$;
        create trigger refuse before insert or update on public.orders for each row execute function public.refuse();`,
      targets,
    });
    cli = createCli(config, environmentOf(install));
    await write(
      `insert into corrections.orders (id, amount, _reason) values (1, -1, 'first'), (2, -2, null), (3, -3, null), (4, 4, null)`,
    );
  });

  /** Nothing runs afterwards: a second delivery would count as an attempt too. */
  const write = async (sql: string) => {
    const pipeline = await install.start();
    await install.source.query(sql);
    await install.wait();
    await pipeline.stop();
  };

  const rows = async (sql: string) => (await install.store.query<Record<string, string | null>>(sql)).rows;
  const idOf = async (id: number) =>
    (await rows(`select _id from emend.dead_letter where log_row ->> 'id' = '${id}'`))[0]!['_id']!;
  const setAside = async () => (await readStatus(install.config)).targets[0]!.setAside;
  const logRow = async (id: number): Promise<LogRows> => {
    const { rows: found } = await install.source.query<Record<string, string | null>>(
      `select id, amount, _id, _op, _nonce, _recorded_at, _actor, _reason from corrections.orders where id = $1`,
      [id],
    );
    return {
      target: 'orders',
      columns: Object.keys(found[0]!),
      values: Object.values(found[0]!).map((value) => [value]),
    };
  };

  it('list says which rows, by their key, and why', async () => {
    const letters = await cli.json<DeadLetter[]>(['dead', 'list', '--target', 'orders']);
    expect(letters.map(({ key, sqlstate, reason, state }) => [key, sqlstate, reason, state])).toEqual(
      [1, 2, 3].map((id) => [{ id: String(id) }, 'P0001', 'no amount below zero', 'open']),
    );
    expect((await cli.run(['dead', 'list'])).stdout).toMatch(/id=2 +P0001 +no amount below zero/);
    const misspelt = await cli.run(['dead', 'list', '--target', 'order']);
    expect([misspelt.code, misspelt.stderr]).toEqual([2, expect.stringMatching(/Did you mean orders/)]);
  });

  it('wait says that rows are set aside, also when it has nothing to wait for', async () => {
    expect(await cli.json(['wait'])).toMatchObject({ rows: 0, setAside: 0, setAsideNow: 3 });
    expect((await cli.run(['wait'])).stdout).toMatch(/^nothing was on its way; 3 rows are set aside now: /);
  });

  it('a retry that fails again counts the attempt, exits with 1, and leaves the row set aside', async () => {
    const attempts = () => rows(`select attempts from emend.dead_letter order by _id`);
    const [before, ...others] = await attempts();
    const again = await cli.run(['dead', 'retry', await idOf(1)]);
    expect([again.code, again.stdout]).toEqual([
      1,
      expect.stringMatching(/^0 rows are merged, 1 is set aside again/),
    ]);
    expect(await attempts()).toEqual([{ attempts: String(Number(before!['attempts']) + 1) }, ...others]);
    expect(
      await rows(`select set_aside_at < tried_at as later from emend.dead_letter order by _id limit 1`),
    ).toEqual([{ later: 't' }]);
    expect(await setAside()).toBe(3);
  });

  it('verify says that rows are set aside, which are no differences', async () => {
    const verified = await cli.run(['verify']);
    expect([verified.code, verified.stdout]).toEqual([
      0,
      expect.stringMatching(/as the log says.*\n.*3 log rows are set aside: emend dead list --target orders/),
    ]);
    expect(await cli.json(['verify', 'orders'])).toMatchObject([{ setAside: 3, found: {} }]);
    const status = await cli.run(['status']);
    expect([status.code, status.stdout]).toEqual([1, expect.stringMatching(/3 log rows are set aside/)]);
  });

  it('discard keeps the row out for good, also when it is delivered again, and the ledger says who and why', async () => {
    const id = await idOf(2);
    for (const reason of [[], ['--reason', ''], ['--reason', ' \t']]) {
      const refused = await cli.run(['dead', 'discard', id, ...reason]);
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringMatching(/--reason/)]);
    }
    expect(await setAside()).toBe(3);
    await cli.json(['dead', 'discard', id, '--reason', 'sent twice']);
    await rows(`alter table public.orders disable trigger refuse`);
    const merge = await createMerge({ pool: install.store, targets: install.targets, log: silentLog });
    await merge(batchOf(await logRow(2)), noAbort);
    await rows(`alter table public.orders enable trigger refuse`);
    expect(await rows(`select id from public.orders`)).toEqual([{ id: '4' }]);
    expect(
      await rows(
        `select dismissed, dismissed_by = current_user as by_me, dismissed_reason from emend.ledger where _id = ${id}`,
      ),
    ).toEqual([{ dismissed: 'discarded', by_me: 't', dismissed_reason: 'sent twice' }]);
    expect(await setAside()).toBe(2);
    const refused = await cli.run(['dead', 'retry', id, await idOf(1)]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringMatching(/is no open dead letter/)]);
  });

  it('a retry merges the row with its old version, so that a newer correction still wins', async () => {
    await write(`insert into corrections.orders (id, amount) values (1, 100)`);
    await rows(`alter table public.orders disable trigger refuse`);
    const retried = await cli.json<Retried>(['dead', 'retry', '--all']);
    await rows(`alter table public.orders enable trigger refuse`);
    expect(retried).toEqual({ merged: [await idOf(1), await idOf(3)], staged: [], setAside: [] });
    expect(await rows(`select id, amount from public.orders order by id`)).toEqual([
      { id: '1', amount: '100' },
      { id: '3', amount: '-3' },
      { id: '4', amount: '4' },
    ]);
    expect(await rows(`select amount, _version = ${await idOf(1)} as old from emend.orders_shadow`)).toEqual([
      { amount: '-1', old: 't' },
    ]);
    expect(
      await rows(
        `select l.told_at > d.set_aside_at as now, l._reason from emend.ledger l join emend.dead_letter d on d._id = l._id and d._id = ${await idOf(1)}`,
      ),
    ).toEqual([{ now: 't', _reason: 'first' }]);
  });

  it('what is closed stays on record, and neither status nor wait counts it', async () => {
    const letters = await cli.json<DeadLetter[]>(['dead', 'list', '--closed']);
    expect(letters.map(({ key, state, closed_reason }) => [key['id'], state, closed_reason])).toEqual([
      ['1', 'merged', null],
      ['2', 'discarded', 'sent twice'],
      ['3', 'merged', null],
    ]);
    expect(await cli.json<DeadLetter[]>(['dead', 'list'])).toEqual([]);
    expect(await setAside()).toBe(0);
    expect(await waitUntilMerged({ config: install.config, timeoutMs: 5_000 })).toMatchObject({
      rows: 0,
      setAside: 0,
    });
  });
});
