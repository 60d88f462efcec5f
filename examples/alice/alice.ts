import { fileURLToPath } from 'node:url';
import { correct, createEmend, defineConfig } from 'emend';
import pg from 'pg';
import config from './emend.config.ts';

export interface Servers {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly redisUrl: string | undefined;
}

export interface JoinedOrder {
  readonly order_id: string;
  readonly day: string;
  readonly customer_id: string;
  readonly city: string | null;
  readonly region: string | null;
}

/** Each order with the customer's address of its own day, as believed today. */
const believedToday = `
  select o.order_id, o.day, o.customer_id, c.city, c.region
  from public.orders o
  left join lateral (
    select * from emend.customers_at(o.day) c where c.customer_id = o.customer_id
  ) c on true
  order by o.order_id`;

/** The same, as anybody would have answered at the end of January. */
const believedInJanuary = believedToday.replace('(o.day)', `(o.day, '2025-01-31')`);

/**
 * Alice lives in New York until March 2025 and in Austin after, which nobody knew in January. Addresses come from a file that
 * says when each was known; orders are written by the application.
 */
export async function joinOrders(
  servers: Servers,
): Promise<{ today: JoinedOrder[]; january: JoinedOrder[] }> {
  const emend = createEmend(
    defineConfig({
      ...config,
      source: { url: servers.sourceUrl },
      store: { url: servers.storeUrl },
      queue: servers.redisUrl === undefined ? {} : { redis: servers.redisUrl },
    }),
    {},
  );
  const source = new pg.Pool({ connectionString: servers.sourceUrl, max: 1 });
  const store = new pg.Pool({
    connectionString: servers.storeUrl,
    max: 1,
    types: { getTypeParser: () => (text: string) => text },
  });
  try {
    await store.query(`
      create table public.customers (
        customer_id text, valid_from date, valid_to date not null, city text not null, region text not null,
        primary key (customer_id, valid_from)
      );
      create table public.orders (order_id integer primary key, customer_id text not null, day date not null)`);
    await emend.migrate();
    await emend.importHistory('customers', fileURLToPath(new URL('customers.ndjson', import.meta.url)), {
      knownAt: 'known_at',
    });
    const pipeline = await emend.start();
    try {
      await correct(source, config.targets.orders, [
        { order_id: 1, customer_id: 'alice', day: '2025-02-10' },
        { order_id: 2, customer_id: 'alice', day: '2025-04-10' },
        { order_id: 3, customer_id: 'bob', day: '2025-04-11' },
      ]);
      await emend.wait({ timeoutMs: 30_000 });
      const [today, january] = [
        await store.query<JoinedOrder>(believedToday),
        await store.query<JoinedOrder>(believedInJanuary),
      ];
      return { today: today.rows, january: january.rows };
    } finally {
      await pipeline.stop();
    }
  } finally {
    await Promise.all([source.end(), store.end()]);
  }
}
