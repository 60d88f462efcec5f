import { beforeAll, expect, it } from 'vitest';
import { correct, createEmend, defineConfig, timeline } from '../../src/index.ts';
import type { Emend } from '../../src/index.ts';
import { withTransaction } from '../../src/db/transaction.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: { prices: timeline('public.prices', { key: ['product_id'], period: ['valid_from', 'valid_to'] }) },
});

let install: Install;
let emend: Emend;
beforeAll(async () => {
  install = await createInstall('library', {
    ddl: `create table public.prices (product_id text not null, valid_from date not null, valid_to date not null, price numeric, unit text)`,
    targets,
  });
  const { source, store, queue } = install.config;
  emend = createEmend({ source, store, queue: { redis: queue.redis! }, targets }, {});
  await install.start();
});

it('a program corrects, waits, asks, explains and undoes as the commands do', async () => {
  const price = async () => {
    await emend.wait({ timeoutMs: 20_000 });
    const { rows } = await emend.at('prices', { key: ['product_id=A'], validAt: '2026-09-11' });
    return rows.map((row) => [row['price'], row['unit']]);
  };
  await correct(install.source, targets.prices, {
    product_id: 'A',
    valid_from: '2026-01-01',
    price: 4,
    unit: 'kg',
  });
  expect(await price()).toEqual([['4', 'kg']]);
  const [id] = await withTransaction(install.source, (tx) =>
    emend.correctColumns(tx, targets.prices, {
      key: { product_id: 'A' },
      from: '2026-09-10',
      to: '2026-09-13',
      set: { price: '5' },
      reason: 'contract 17',
    }),
  );
  expect(await price()).toEqual([['5', 'kg']]);
  const { corrections, leftOut } = await emend.explain('prices', {
    key: ['product_id=A'],
    validAt: '2026-09-11',
    limit: 1,
  });
  const [winner] = corrections;
  expect(leftOut).toBe(1);
  expect(winner).toMatchObject({ _id: id, _reason: 'contract 17', state: 'stands' });
  expect((await emend.undo('prices', id!, { reason: 'typo' })).toldAt).not.toBeNull();
  expect(await price()).toEqual([['4', 'kg']]);
  const { rows } = await emend.at('prices', { validAt: '2025-01-01' });
  expect(rows).toEqual([]);
});
