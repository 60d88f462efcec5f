import type { ClientBase } from 'pg';
import { beforeAll, expect, onTestFinished } from 'vitest';
import { openBackfill } from '../../src/log/backfill.ts';
import type { BackfillOpening } from '../../src/log/backfill.ts';
import { createDatabases } from './databases.ts';
import type { Databases } from './databases.ts';
import { eventually } from './eventually.ts';
import { createSource } from './source.ts';
import type { Declaration, SourceUnderTest } from './source.ts';

/**
 * Backfills as the source has them, with no worker that looks at them: opens, loads, seals and reads them. It makes logs
 * of two targets before the tests of the describe in which it is called.
 */
export function setUpBackfillSource(databaseName: string) {
  // both filled before the first test
  const databases = {} as Databases;
  const db = {} as SourceUnderTest;
  beforeAll(async () => {
    Object.assign(databases, await createDatabases(databaseName));
    Object.assign(db, await createSource(databases, ddl, declarations));
    return async () => {
      await db.source.end();
      await db.store.end();
    };
  });

  let named = 0;
  const opening = (over: Partial<BackfillOpening> = {}): BackfillOpening => ({
    name: `b-${++named}`,
    targets: ['prices'],
    reason: 'contract 17',
    logicVersion: 'a1b2c3',
    ...over,
  });
  const opened = async (over: Partial<BackfillOpening> = {}): Promise<string> => {
    const backfill = opening(over);
    expect(await openBackfill(db.source, backfill)).toBe(true);
    return backfill.name;
  };
  const insert = (name: string, count = 1, from = 1) => ({
    text: `insert into corrections.prices (product, valid_from, price, _backfill)
           select 'P' || n, '2026-01-01', n, $1 from generate_series($2::integer, $3::integer) as n`,
    values: [name, from, from + count - 1],
  });
  const loaded = async (over: Partial<BackfillOpening> = {}): Promise<string> => {
    const name = await opened(over);
    await db.source.query(insert(name));
    return name;
  };
  const sealedOf = async (name: string) => {
    const { rows } = await db.source.query<{ sealed: string | null }>(
      `select sealed::text as sealed from corrections._backfill where name = $1`,
      [name],
    );
    return JSON.parse(rows[0]?.sealed ?? 'null') as Record<string, { rows: number; digest: string }> | null;
  };
  const stateOf = async (name: string) => {
    const { rows } = await db.source.query<{ state: string }>(
      `select state from corrections._backfill_state where name = $1`,
      [name],
    );
    return rows[0]?.state;
  };
  const requestsOf = async (name: string) => {
    const { rows } = await db.source.query<{ request: string }>(
      `select request from corrections._request where backfill = $1 order by _id`,
      [name],
    );
    return rows.map((row) => row.request);
  };
  const chunksOf = async (name: string) => {
    const { rows } = await db.source.query<{ details: string }>(
      `select details::text as details from corrections._request where backfill = $1 and request = 'chunk' order by _id`,
      [name],
    );
    return rows.map(
      ({ details }) => JSON.parse(details) as { target: string; first: string; last: string; rows: number },
    );
  };
  /** A connection of its own, in a transaction that stays open. */
  const inTransaction = async (): Promise<ClientBase> => {
    const client = await db.source.connect();
    await client.query('begin');
    onTestFinished(() => client.release(true));
    return client;
  };
  const untilSomebodyWaits = () =>
    eventually(async () => {
      const { rows } = await db.source.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      expect(rows.length).toBeGreaterThan(0);
    });

  return {
    databases,
    db,
    opening,
    opened,
    insert,
    loaded,
    sealedOf,
    stateOf,
    requestsOf,
    chunksOf,
    inTransaction,
    untilSomebodyWaits,
  };
}

const ddl = `
  create type public.mood as enum ('good', 'bad');
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric);
  create table public.values (id integer not null, flag boolean, code char(5), day date, at timestamptz, span interval,
    f float8, raw bytea, doc jsonb, tags text[], mood public.mood, n numeric(10,2), range tstzrange, loose json)`;

const declarations: Declaration[] = [
  {
    name: 'prices',
    kind: 'timeline',
    key: ['product'],
    period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
  },
  { name: 'values', kind: 'facts', key: ['id'] },
];
