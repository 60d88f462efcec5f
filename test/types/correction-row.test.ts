import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { bigint, date, integer, pgTable, serial, text, timestamp } from 'drizzle-orm/pg-core';
import type { Client, Pool, PoolClient } from 'pg';
import { expectTypeOf, test } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import type { correct } from '../../src/log/append.ts';
import type { CorrectionRow, RetractionRow } from '../../src/log/correction-row.ts';

const prices = pgTable('prices', {
  productId: text('product_id').notNull(),
  validFrom: timestamp('valid_from').notNull().defaultNow(),
  validTo: timestamp('valid_to').notNull(),
  price: text('price').notNull(),
  note: text('note'),
  currency: text('currency').notNull().default('EUR'),
  knownFrom: timestamp('_known_from').notNull(),
});
const addresses = pgTable('addresses', {
  person: integer('person').notNull(),
  validFrom: date('valid_from').notNull(),
  validTo: date('valid_to').notNull(),
  city: text('city').notNull(),
});
const orders = pgTable('orders', {
  rowId: serial('row_id'),
  id: bigint('id', { mode: 'bigint' }).notNull(),
  at: timestamp('at').notNull(),
  revision: integer('revision').notNull(),
});

const { targets } = defineConfig({
  targets: {
    prices: timeline(prices, { key: ['productId'], period: ['validFrom', 'validTo'] }),
    pricesByColumn: timeline(prices, { key: ['product_id'], period: ['valid_from', 'valid_to'] }),
    addresses: timeline(addresses, { key: ['person'], period: ['validFrom'] }),
    addressesByMode: timeline(addresses, {
      key: ['person'],
      period: ['valid_from', 'valid_to'],
      mode: 'until_next',
    }),
    orders: facts(orders, { key: ['id', 'at'], version: 'revision' }),
    named: facts('public.named', { key: ['id'] }),
  },
});

interface PriceRow {
  readonly productId: string;
  readonly price: string;
  readonly note?: string | null | undefined;
  readonly currency?: string | undefined;
  readonly validFrom: Date | string;
  readonly validTo?: Date | string | null | undefined;
}

test('a row is that of the Drizzle table: the start stated, the end open if left out, nothing of emend', () => {
  expectTypeOf<PriceRow>().toExtend<CorrectionRow<typeof targets.prices>>();
  expectTypeOf<CorrectionRow<typeof targets.prices>>().toExtend<PriceRow>();
  expectTypeOf<keyof CorrectionRow<typeof targets.prices>>().toEqualTypeOf<keyof PriceRow>();
  expectTypeOf<CorrectionRow<typeof targets.pricesByColumn>>().toEqualTypeOf<
    CorrectionRow<typeof targets.prices>
  >();
  expectTypeOf<{ productId: string; price: string }>().not.toExtend<CorrectionRow<typeof targets.prices>>();
  expectTypeOf<{ productId: string; price: number; validFrom: string }>().not.toExtend<
    CorrectionRow<typeof targets.prices>
  >();
});

test('where each holds until the next, there is no end to state', () => {
  interface AddressRow {
    person: number;
    validFrom: string;
    city: string;
  }
  expectTypeOf<CorrectionRow<typeof targets.addresses>>().toEqualTypeOf<AddressRow>();
  expectTypeOf<CorrectionRow<typeof targets.addressesByMode>>().toEqualTypeOf<AddressRow>();
});

test('a retraction is key, period and version', () => {
  expectTypeOf<keyof RetractionRow<typeof targets.prices>>().toEqualTypeOf<
    'productId' | 'validFrom' | 'validTo'
  >();
  expectTypeOf<keyof RetractionRow<typeof targets.addresses>>().toEqualTypeOf<'person' | 'validFrom'>();
  expectTypeOf<RetractionRow<typeof targets.orders>>().toEqualTypeOf<{
    id: bigint;
    at: Date | string;
    revision: number;
  }>();
});

test('a table by name takes any columns', () => {
  expectTypeOf<CorrectionRow<typeof targets.named>>().toEqualTypeOf<Readonly<Record<string, unknown>>>();
});

test('a correction is written with pg and Drizzle alike', () => {
  type Executor = Parameters<typeof correct>[0];
  type Transaction = Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0];
  expectTypeOf<Client | Pool | PoolClient>().toExtend<Executor>();
  expectTypeOf<
    NodePgDatabase<{ prices: typeof prices }> | NodePgDatabase | Transaction
  >().toExtend<Executor>();
});
