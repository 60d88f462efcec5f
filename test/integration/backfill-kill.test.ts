import { once } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { removeOrphanFences } from '../../src/merge/fence.ts';
import { verifyTarget } from '../../src/verify/verify.ts';
import { carryOutAll, hasSession, startWorkerProcess, stopAt } from '../support/backfill-work.ts';
import type { Stop } from '../support/backfill-work.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    orders: facts('public.orders', { key: ['id'] }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.orders (id bigint not null, amount numeric)`;

interface Death {
  readonly at: string;
  readonly stop: Stop;
  /** What has been asked for by then. */
  readonly asked: 'promote' | 'revert' | 'abandon';
  /** The transaction that its keys are fenced for stops there. */
  readonly isFenced?: true;
  /** Of orders, in the backfill. */
  readonly rows?: number;
}

const last = `(select b.name from emend.backfill b order by b.opened_at desc limit 1)`;
const isIn = (state: string) => `(select b.state = '${state}' from emend.backfill b where b.name = ${last})`;
const someDismissed = `(select count(*) > 5000 from emend.ledger l where l.dismissed is not null and l._backfill = ${last})`;

const deaths: Death[] = [
  { at: 'staging', stop: { table: 'emend.orders_staged' }, asked: 'promote' },
  { at: 'sealing', stop: { table: 'emend.backfill_event', when: isIn('sealed') }, asked: 'promote' },
  { at: 'writing the diff', stop: { table: 'emend.backfill_change' }, asked: 'promote' },
  { at: 'the trial merge', stop: { table: 'public.orders', when: isIn('staged') }, asked: 'promote', isFenced: true },
  { at: 'writing down what the checks found', stop: { table: 'emend.backfill_check' }, asked: 'promote' },
  { at: 'the merge of the promote', stop: { table: 'public.orders', when: isIn('checked') }, asked: 'promote', isFenced: true },
  { at: 'the end of the promote', stop: { table: 'emend.backfill_event', when: isIn('promoted') }, asked: 'promote', isFenced: true },
  { at: 'the beginning of the revert', stop: { table: 'emend.undone' }, asked: 'revert', isFenced: true },
  { at: 'the end of the revert', stop: { table: 'emend.backfill_event', when: isIn('reverted') }, asked: 'revert', isFenced: true },
  { at: 'the beginning of abandoning', stop: { table: 'emend.ledger_recent', when: isIn('abandoned') }, asked: 'abandon' },
  // more rows than are dismissed at a time
  { at: 'abandoning, after some of its rows', stop: { table: 'emend.ledger_recent', when: someDismissed }, asked: 'abandon', rows: 5_500 },
]; // prettier-ignore

const endOf = { promote: 'promoted', revert: 'reverted', abandon: 'abandoned' };

describe('a worker that is killed with kill -9', () => {
  let install: Install;
  let count = 0;
  beforeAll(async () => {
    install = await createInstall('backfill kill', { ddl, targets });
  });

  const source = async (sql: string, values: unknown[] = []) =>
    (await install.source.query(sql, values)).rows;
  const store = async (sql: string, values: unknown[] = []) => (await install.store.query(sql, values)).rows;
  const fences = () =>
    store(`select distinct holder from emend.fence union select holder from emend.fence_of`);
  async function held(): Promise<{ orders: number; prices: number }> {
    const [row] = await store(
      `select (select count(*) from public.orders) as orders, (select count(*) from public.prices) as prices`,
    );
    return { orders: Number(row.orders), prices: Number(row.prices) };
  }

  async function write(name: string, rows: number): Promise<void> {
    count += 1;
    await source(`select corrections.open_backfill($1, '{prices,orders}', 'a test', 'v1')`, [name]);
    await source(
      `insert into corrections.orders (id, amount, _backfill) select $2 * 10000 + n, n, $1 from generate_series(1, $3) n`,
      [name, count, rows],
    );
    await source(
      `insert into corrections.prices (product, valid_from, valid_to, price, _backfill) values ($1, '2026-03-01', '2026-04-01', 5, $1)`,
      [name],
    );
    await source(`select corrections.seal_backfill($1)`, [name]);
  }

  it.each(deaths)(
    'at $at leaves nothing half-made, and another one goes on',
    async ({ at, stop, asked, isFenced, rows = 500 }) => {
      const name = at.replaceAll(/[^a-z]+/g, '-');
      const before = await held();
      await write(name, rows);
      if (asked !== 'abandon') await source(`select corrections.promote_backfill($1)`, [name]);
      // the store has come so far when these are asked for
      if (asked !== 'promote') {
        await carryOutAll(install, name);
        await source(`select corrections.${asked}_backfill($1, 'wrong')`, [name]);
      }
      const meanwhile = await held();

      const stopped = await stopAt(install, stop);
      const worker = startWorkerProcess(install, name);
      await stopped.reached();
      const ended = once(worker, 'exit');
      worker.kill('SIGKILL');
      await ended;
      // its session is gone; its transaction goes on until it wants to answer, and nobody may take its fence for an orphan
      await eventually(async () => expect(await hasSession(install, name)).toBe(false));
      await eventually(async () => {
        await removeOrphanFences(install.store);
        expect(await fences()).toEqual(isFenced ? [{ holder: name }] : []);
      });
      expect(await held(), 'what readers see').toEqual(meanwhile);
      await stopped.release();
      if (asked === 'abandon')
        await eventually(async () =>
          expect(await store(`select from emend.ledger where _backfill = $1 limit 1`, [name])).toEqual([]),
        );

      await carryOutAll(install, name);
      await removeOrphanFences(install.store);
      expect(await store(`select state, wish from emend.backfill where name = $1`, [name])).toEqual([
        { state: endOf[asked], wish: null },
      ]);
      const whole = { orders: before.orders + rows, prices: before.prices + 1 };
      expect(await held()).toEqual(asked === 'promote' ? whole : before);
      expect(await fences()).toEqual([]);
      expect(await store(`select from emend.orders_staged where _backfill = $1 limit 1`, [name])).toEqual([]);
    },
  );

  it.each(['promote', 'abandon'] as const)(
    'after it had staged rows, and before that was recorded, leaves none of them behind: %s',
    async (asked) => {
      const name = `late-${asked}`;
      await write(name, 10);
      await source(`select corrections.${asked}_backfill($1, 'a test')`, [name]);
      await carryOutAll(install, name);
      const chunks = await store(
        `delete from emend.backfill_request where backfill = $1 and request = 'chunk' returning _id`,
        [name],
      );
      expect(chunks).toHaveLength(2);
      const settled = await held();
      await carryOutAll(install, name);
      expect(await store(`select state from emend.backfill where name = $1`, [name])).toEqual([
        { state: endOf[asked] },
      ]);
      expect(await store(`select from emend.orders_staged where _backfill = $1 limit 1`, [name])).toEqual([]);
      expect(await held()).toEqual(settled);
    },
  );

  it('leaves a store in which verify finds nothing', async () => {
    for (const target of install.targets) {
      const { found } = await verifyTarget({
        ...install,
        target,
        keys: null,
        repair: false,
        graceMs: 0,
        limit: 3,
      });
      expect(found).toEqual({});
    }
  });
});
