/** Facts joined to what held at their own time, as believed today and as believed in January. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServices } from 'emend/dev';
import { createDemoDatabases } from '../currency/databases.ts';
import { joinOrders } from './alice.ts';
import type { JoinedOrder } from './alice.ts';

function print(title: string, orders: readonly JoinedOrder[]): void {
  const line = (cells: readonly (string | null)[]) =>
    cells
      .map((cell) => (cell ?? '').padEnd(11))
      .join(' ')
      .trimEnd();
  const lines = orders.map((order) =>
    line([order.order_id, order.day, order.customer_id, order.city, order.region]),
  );
  process.stdout.write(
    `\n${title}\n${[line(['order', 'day', 'customer', 'city', 'region']), ...lines].join('\n')}\n`,
  );
}

const folder = mkdtempSync(join(tmpdir(), 'emend-alice-'));
const services = await startServices({ dir: folder, redis: 'if-present', fast: true });
try {
  const databases = await createDemoDatabases(services);
  try {
    const { today, january } = await joinOrders({ ...databases, redisUrl: services.redisUrl });
    print('As believed today', today);
    print('As believed at the end of January 2025', january);
  } finally {
    await databases.drop();
  }
} finally {
  await services.stop();
  rmSync(folder, { recursive: true, force: true });
}
