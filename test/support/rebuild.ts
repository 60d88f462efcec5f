import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { createInstall } from './install.ts';
import type { Install } from './install.ts';

/** An install that runs, with 40 prices, each corrected for March, and 300 orders: what is rebuilt while others go on. */
export async function createFilled(name: string, more = ''): Promise<Install> {
  const install = await createInstall(name, { ddl: `${ddl}; ${more}`, targets });
  await install.start();
  await install.source.query(
    `insert into corrections.prices (product, valid_from, valid_to, price) select 'p' || n, '2026-01-01', 'infinity', n from generate_series(1, 40) n;
     insert into corrections.orders (id, amount) select n, n from generate_series(1, 300) n`,
  );
  await install.wait();
  await install.source.query(
    `insert into corrections.prices (product, valid_from, valid_to, price) select 'p' || n, '2026-03-01', '2026-04-01', 100 + n from generate_series(1, 40) n`,
  );
  await install.wait();
  return install;
}

const { targets } = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
    orders: facts('public.orders', { key: ['id'] }),
  },
});

const ddl = `
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.orders (id bigint primary key, amount numeric)`;

export const swapNow = { swap: true, reason: 'a test' };

/** A session of a rebuild, and not a worker of somebody else. */
export const ofRebuild = `current_setting('application_name') = 'emend rebuild'`;

/** What verify finds in each target, prices first. */
export const found = async (install: Install) => (await verify(install.config)).map((each) => each.found);
