import { defineConfig, facts, timeline } from 'emend';

export default defineConfig({
  targets: {
    /** Where a customer lives, from a day on, until the next address. */
    customers: timeline('public.customers', { key: ['customer_id'], period: ['valid_from'] }),
    orders: facts('public.orders', { key: ['order_id'], eventTime: 'day' }),
  },
});
