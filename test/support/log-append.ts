import { drizzle } from 'drizzle-orm/node-postgres';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import {
  bigint,
  customType,
  date,
  doublePrecision,
  integer,
  jsonb,
  numeric,
  pgTable,
  text,
  timestamp,
  varchar,
} from 'drizzle-orm/pg-core';
import pg from 'pg';
import { afterAll } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { createDatabases } from './databases.ts';
import { createSource } from './source.ts';
import type { SourceUnderTest } from './source.ts';

/*
 * What an application has that appends corrections: targets as Drizzle tables and by name, and connections of its own.
 */

const pricesTable = pgTable('prices', {
  productId: text('product_id').notNull(),
  validFrom: timestamp('valid_from', { withTimezone: true }).notNull(),
  validTo: timestamp('valid_to', { withTimezone: true }).notNull(),
  price: numeric('price').notNull(),
  note: text('note').default('none'),
  sourceSystem: text().$defaultFn(() => 'web'),
});
const thingsTable = pgTable('things', {
  id: bigint('id', { mode: 'bigint' }).notNull(),
  code: varchar('code', { length: 3 }),
  f: doublePrecision('f'),
  n: numeric('n', { precision: 50, scale: 10 }),
  doc: jsonb('doc').$type<unknown>(),
  tags: text('tags').array(),
  matrix: integer('matrix').array().array(),
  raw: customType<{ data: Buffer }>({ dataType: () => 'bytea' })('raw'),
  day: date('day', { mode: 'date' }),
  seenAt: timestamp('seen_at'),
});

const config = defineConfig({
  targets: {
    prices: timeline(pricesTable, { key: ['productId'], period: ['validFrom', 'validTo'] }),
    things: facts(thingsTable, { key: ['id'] }),
    addresses: timeline('public.addresses', {
      key: ['person'],
      period: ['since', 'until_day'],
      mode: 'until_next',
    }),
  },
});
/** As Drizzle tables, but for addresses. */
export const { prices, things, addresses } = config.targets;
/** The same tables by name. */
export const byName = defineConfig({
  targets: {
    prices: timeline('public.prices', { key: ['product_id'], period: ['valid_from', 'valid_to'] }),
    things: facts('public.things', { key: ['id'] }),
  },
}).targets;

const ddl = `
  create table public.prices (
    product_id text not null, valid_from timestamptz not null, valid_to timestamptz not null,
    price numeric not null, note text default 'none', source_system text
  );
  create table public.things (
    id bigint not null, code varchar(3), f float8, n numeric(50, 10), doc jsonb, tags text[], matrix integer[],
    raw bytea, day date, seen_at timestamp, flag boolean
  );
  create table public.addresses (person integer not null, since date not null, until_day date not null, city text not null);
`;

export interface Logs {
  readonly db: SourceUnderTest;
  readonly client: pg.Client;
  readonly orm: NodePgDatabase;
}

/** The logs of these targets, and the connection of the application, as it is and for Drizzle. */
export async function createLogs(name: string): Promise<Logs> {
  const databases = await createDatabases(name);
  const db = await createSource(databases, ddl, [
    {
      name: 'prices',
      kind: 'timeline',
      key: ['product_id'],
      period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
    },
    { name: 'things', kind: 'facts', key: ['id'] },
    {
      name: 'addresses',
      kind: 'timeline',
      key: ['person'],
      period: { from: 'since', to: 'until_day', mode: 'until_next' },
    },
  ]);
  const client = new pg.Client({ connectionString: databases.sourceUrl });
  await client.connect();
  // the application's settings are its own
  await client.query(`set search_path = nowhere; set datestyle = 'German'; set timezone = 'Asia/Tokyo'`);
  afterAll(async () => {
    await client.end();
    await db.source.end();
    await db.store.end();
  });
  return { db, client, orm: drizzle({ client }) };
}

/** The number of the last row of prices and things. */
export async function lastOf(db: SourceUnderTest): Promise<string> {
  const { rows } = await db.source.query<{ id: string }>(
    `select coalesce(max(_id), 0) as id from (select _id from corrections.prices union all select _id from corrections.things) as l`,
  );
  return rows[0]!.id;
}

/** What was written to a log after that row, in order. */
export async function writtenAfter(
  db: SourceUnderTest,
  id: string,
  table: string,
  columns: string,
): Promise<Record<string, string | null>[]> {
  const { rows } = await db.source.query<Record<string, string | null>>(
    `select ${columns} from corrections.${table} where _id > $1 order by _id`,
    [id],
  );
  return rows;
}
