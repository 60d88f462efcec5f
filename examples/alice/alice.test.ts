import { expect, it } from 'vitest';
import { createDatabases } from '../../test/support/databases.ts';
import { joinOrders } from './alice.ts';

it('an order of February joins to the Northeast, one of April to where Alice was believed to live', async () => {
  const { today, january } = await joinOrders(await createDatabases('alice'));
  const regions = (rows: readonly { order_id: string; region: string | null }[]) =>
    rows.map(({ order_id, region }) => [order_id, region]);
  expect(regions(today)).toEqual([
    ['1', 'Northeast'],
    ['2', 'Southwest'],
    ['3', 'Midwest'],
  ]);
  expect(regions(january)).toEqual([
    ['1', 'Northeast'],
    ['2', 'Northeast'],
    ['3', 'Midwest'],
  ]);
});
