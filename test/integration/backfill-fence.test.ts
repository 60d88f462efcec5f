import { once } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import { withTransaction } from '../../src/db/transaction.ts';
import { holdFence } from '../../src/merge/fence.ts';
import { verifyTarget } from '../../src/verify/verify.ts';
import {
  carryOutAll,
  carryOutOnce,
  hasSession,
  holdLockOfFence,
  startWorkerProcess,
  stopAt,
} from '../support/backfill-work.ts';
import { eventually, holds } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { prices } from '../support/prices.ts';

describe('a fence', () => {
  let install: Install;
  let count = 0;
  beforeAll(async () => {
    install = await createInstall('backfill fences', prices);
  });

  const source = async (sql: string, values: unknown[] = []) =>
    (await install.source.query(sql, values)).rows;
  const store = async (sql: string, values: unknown[] = []) => (await install.store.query(sql, values)).rows;

  /** A backfill over products p1 … p50 that is checked and not promoted. */
  async function checkedBackfill(price: number): Promise<string> {
    const name = `b-${(count += 1)}`;
    await source(`select corrections.open_backfill($1, '{prices}', 'a test', 'v1')`, [name]);
    await source(
      `insert into corrections.prices (product, valid_from, valid_to, price, _backfill)
       select 'p' || n, '2026-03-01', '2026-04-01', $2, $1 from generate_series(1, 50) n`,
      [name, price],
    );
    await source(`select corrections.seal_backfill($1)`, [name]);
    await carryOutAll(install, name);
    return name;
  }
  const ask = (verb: 'promote' | 'abandon', name: string) =>
    source(`select corrections.${verb}_backfill($1, 'a test')`, [name]);
  const state = async (name: string) =>
    (await store(`select state from emend.backfill where name = $1`, [name]))[0]!.state;

  it('of one backfill keeps another one over the same keys waiting: one is promoted after the other', async () => {
    const [one, other] = [await checkedBackfill(5), await checkedBackfill(6)];
    await ask('promote', one);
    await ask('promote', other);
    const stopped = await stopAt(install, { table: 'public.prices' });
    const first = carryOutAll(install, one);
    await stopped.reached();
    await expect(carryOutOnce(install, other, 'last')).rejects.toMatchObject({ code: 'key_fenced' });
    expect(await state(other)).toBe('checked');
    await stopped.release();
    await Promise.all([first, carryOutAll(install, other)]);
    const told = await store(
      `select name, told_at from emend.backfill where name in ($1, $2) order by told_at`,
      [one, other],
    );
    expect(told.map(({ name }) => name)).toEqual([one, other]);
    expect(told[0]!.told_at < told[1]!.told_at).toBe(true);
    expect(await store(`select distinct price from public.prices`)).toEqual([{ price: '6' }]);
    expect(
      await store(
        `select count(*) from emend.prices_history where _backfill = $1 and _known_to = $2::timestamptz`,
        [one, told[1]!.told_at],
      ),
    ).toEqual([{ count: '50' }]);
  });

  it('of two that are promoted at once, again and again, leaves what one after the other leaves', async () => {
    for (let turn = 0; turn < 3; turn += 1) {
      const names = [await checkedBackfill(10 + turn), await checkedBackfill(20 + turn)];
      for (const name of names) await ask('promote', name);
      await Promise.all(names.map((name) => carryOutAll(install, name)));
      expect(await Promise.all(names.map(state))).toEqual(['promoted', 'promoted']);
      expect(await store(`select distinct price from public.prices`)).toEqual([{ price: String(20 + turn) }]);
    }
    const { found } = await verifyTarget({
      ...install,
      target: install.targets[0]!,
      keys: null,
      repair: false,
      graceMs: 0,
      limit: 3,
    });
    expect(found).toEqual({});
  });

  it('whose lock another transaction has for a moment is waited for: an abandon goes through, and fails where that one stays', async () => {
    const name = await checkedBackfill(30);
    await ask('abandon', name);
    const staying = await holdLockOfFence(install, name);
    await expect(carryOutOnce(install, name, 'last')).rejects.toMatchObject({
      code: 'backfill_busy',
      message: expect.stringContaining('has not ended'),
    });
    expect(await state(name)).toBe('checked');
    const abandoning = carryOutOnce(install, name, 'last');
    await Promise.race([staying.reached(), abandoning]);
    await staying.release();
    await abandoning;
    expect(await state(name)).toBe('abandoned');
  });

  it('that was waited for leaves the transaction the limit of waiting that it had', async () => {
    const moment = await holdLockOfFence(install, 'nobody');
    const limit = withTransaction(install.store, async (client) => {
      await client.query(`set local lock_timeout = '7s'`);
      await holdFence(client, 'nobody');
      return (await client.query(`show lock_timeout`)).rows;
    });
    await Promise.race([moment.reached(), limit]);
    await moment.release();
    expect(await limit).toEqual([{ lock_timeout: '7s' }]);
  });

  it('is held by the transaction that it stands for: a worker whose session was lost is not overtaken', async () => {
    const name = await checkedBackfill(30);
    await ask('promote', name);
    const stopped = await stopAt(install, { table: 'public.prices', when: lastIs('checked') });
    const promoting = carryOutAll(install, name).catch(() => undefined);
    await stopped.reached();
    const sessions = await store(
      `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and classid = ${0x656e0000} and granted
         and database = (select oid from pg_database where datname = current_database())`,
    );
    expect(sessions).toHaveLength(1);
    await ask('abandon', name);
    await eventually(() =>
      expect(carryOutOnce(install, name, 'last')).rejects.toMatchObject({
        code: 'backfill_busy',
        message: expect.stringContaining('has not ended'),
      }),
    );
    expect(await store(`select holder from emend.fence_of`)).toEqual([{ holder: name }]);
    await stopped.release();
    await promoting;
    await carryOutAll(install, name);
    expect(await state(name)).toBe('promoted');
    expect(
      await store(`select dismissed, count(*) from emend.ledger where _backfill = $1 group by 1`, [name]),
    ).toEqual([{ dismissed: null, count: '50' }]);
  });

  it(
    'of a worker that was killed in the middle of a promote is removed, and another worker promotes',
    { timeout: 120_000 },
    async () => {
      const name = await checkedBackfill(40);
      await ask('promote', name);
      const stopped = await stopAt(install, { table: 'public.prices', when: lastIs('checked') });
      const worker = startWorkerProcess(install, name);
      await stopped.reached();
      const ended = once(worker, 'exit');
      worker.kill('SIGKILL');
      await ended;
      await eventually(async () => expect(await hasSession(install, name)).toBe(false));
      await install.start();
      await source(
        `insert into corrections.prices (product, valid_from, valid_to, price) values ('p1', '2026-03-05', '2026-03-06', 41)`,
      );
      await holds(
        async () => {
          expect(await state(name)).toBe('checked');
          expect(await store(`select from public.prices where price >= 40`)).toEqual([]);
        },
        { forMs: 7_000 }, // longer than the round in which fences of the dead are looked for
      );
      await stopped.release();
      await eventually(async () => expect(await state(name)).toBe('promoted'), { timeoutMs: 60_000 });
      await install.wait();
      expect(await store(`select holder from emend.fence_of`)).toEqual([]);
      expect(await store(`select price, count(*) from public.prices group by 1 order by 1`)).toEqual([
        { price: '40', count: '51' },
        { price: '41', count: '1' },
      ]);
    },
  );
});

function lastIs(state: string): string {
  return `(select state = '${state}' from emend.backfill order by opened_at desc limit 1)`;
}
