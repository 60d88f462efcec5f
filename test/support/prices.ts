import { defineConfig, timeline } from '../../src/config/define-config.ts';

/** Prices of products over time, the plainest target there is, for `createInstall`. */
export const prices = {
  ddl: `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric)`,
  targets: defineConfig({
    targets: { prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }) },
  }).targets,
};
