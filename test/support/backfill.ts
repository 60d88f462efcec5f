import { beforeAll, expect } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { eventually } from './eventually.ts';
import { createInstall } from './install.ts';
import type { Install } from './install.ts';

/**
 * Backfills as everything that runs makes them: asks by SQL in the source, and looks what the store has of it. It makes
 * the install before the tests of the describe in which it is called; `name` gives the backfill a test is about.
 */
export function setUpBackfills(databaseName: string, name: () => string) {
  // filled before the first test
  const install = {} as Install;
  beforeAll(async () => {
    Object.assign(install, await createInstall(databaseName, { ddl, targets }));
    await install.start();
  });

  const source = async (sql: string, values: unknown[] = []) =>
    (await install.source.query(sql, values)).rows;
  const store = async (sql: string, values: unknown[] = []) => (await install.store.query(sql, values)).rows;
  const open = (of: string[], more: { boundary?: object; checks?: object } = {}) =>
    source(`select corrections.open_backfill($1, $2, 'a test', 'v1', $3, '{}', $4)`, [
      name(), of, JSON.stringify(more.boundary ?? {}), JSON.stringify(more.checks ?? {}),
    ]); // prettier-ignore
  const seal = () => source(`select corrections.seal_backfill($1)`, [name()]);
  const promote = (accept: object = {}) =>
    source(`select corrections.promote_backfill($1, 'looks right', $2)`, [name(), JSON.stringify(accept)]);
  const ask = (verb: 'revert' | 'abandon') =>
    source(`select corrections.${verb}_backfill($1, 'wrong after all')`, [name()]);
  const price = (
    product: string,
    from: string,
    to: string,
    amount: number | null,
    backfill: string | null = name(),
  ) =>
    source(
      `insert into corrections.prices (product, valid_from, valid_to, price, _op, _backfill) values ($1, $2, $3, $4, $5, $6)`,
      [product, from, to, amount, amount === null ? 'retract' : 'upsert', backfill],
    );
  const reaches = (state: string, options?: { timeoutMs: number }) =>
    eventually(async () => {
      const [row] = await store(`select state, problem from emend.backfill where name = $1`, [name()]);
      expect(row).toMatchObject({ state });
    }, options);
  const held = (product: string) =>
    store(`select valid_from, valid_to, price from public.prices where product = $1 order by valid_from`, [
      product,
    ]);
  const failing = () =>
    store(
      `select name, figure from emend.backfill_check where backfill = $1 and verdict = 'fail' order by name`,
      [name()],
    );

  return { install, source, store, open, seal, promote, ask, price, reaches, held, failing };
}

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    orders: facts('public.orders', { key: ['id'], eventTime: 'ordered_at' }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.orders (id bigint not null, ordered_at timestamptz not null, amount numeric)`;
