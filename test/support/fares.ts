import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll } from 'vitest';
import { loadRemedy, loadRows } from '../../src/backfill/load.ts';
import type { LoadWork } from '../../src/backfill/load.ts';
import { readInput } from '../../src/backfill/read-rows.ts';
import { openBackfill } from '../../src/log/backfill.ts';
import { createDatabases } from './databases.ts';
import { createSource } from './source.ts';
import type { SourceUnderTest } from './source.ts';

/**
 * Files that are loaded into backfills of a table of fares: writes and loads them, and reads what came of it. It makes
 * table and folder before the tests of the describe in which it is called.
 */
export function setUpFares(databaseName: string) {
  // filled before the first test
  const db = {} as SourceUnderTest;
  let folder: string;
  beforeAll(async () => {
    const databases = await createDatabases(databaseName);
    folder = await mkdtemp(join(tmpdir(), 'emend-fares-'));
    Object.assign(
      db,
      await createSource(
        databases,
        `create table public.fares (
           route text not null, cabin char(1) not null default 'Y', valid_from date not null, valid_to date not null,
           price numeric(8, 2) not null, note varchar(5) default 'none', doc json, tags text[],
           span interval hour, flags bit(3), check (price >= 0)
         )`,
        [
          {
            name: 'fares',
            kind: 'timeline',
            key: ['route', 'cabin'],
            period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
          },
        ],
      ),
    );
    return async () => {
      await db.source.end();
      await db.store.end();
      await rm(folder, { recursive: true, force: true });
    };
  });

  let named = 0;
  const opened = async () => {
    const name = `b-${++named}`;
    await openBackfill(db.source, { name, targets: ['fares'], reason: 'contract', logicVersion: 'v1' });
    return name;
  };
  const inFolder = (name: string) => join(folder, name);
  const file = (text: string, ending = 'ndjson') => {
    const path = inFolder(`f-${++named}.${ending}`);
    writeFileSync(path, text);
    return path;
  };
  const load = (name: string, path: string, over: Partial<LoadWork> = {}) =>
    loadRows({
      source: db.source,
      target: db.targets[0]!,
      name,
      input: 'fares',
      rows: readInput({ path, remedy: loadRemedy }),
      ...over,
    });
  /** The numbers of the routes it has in the log, in their order. */
  const routesOf = async (name: string) => {
    const { rows } = await db.source.query<{ route: string }>(
      `select route from corrections.fares where _backfill = $1 order by _id`,
      [name],
    );
    return rows.map(({ route }) => Number(route.slice(1)));
  };
  /** Of each chunk that was asked for, the rows it states and those it has in the log, as `rows/loaded`. */
  const chunksOf = async (name: string) => {
    const { rows } = await db.source.query<{ rows: string; loaded: string }>(
      `select r.details ->> 'rows' as rows,
         (select count(*) from corrections.fares l where l._backfill = $1
            and l._id between (r.details ->> 'first')::bigint and (r.details ->> 'last')::bigint) as loaded
       from corrections._request r where r.backfill = $1 and r.request = 'chunk' order by r._id`,
      [name],
    );
    return rows.map((row) => `${row.rows}/${row.loaded}`);
  };

  return { db, opened, inFolder, file, load, routesOf, chunksOf };
}

/** A row of such a file. */
export const fare = (n: number, over: object = {}) => ({
  route: `R${n}`,
  cabin: 'Y',
  valid_from: '2026-01-01',
  price: n,
  ...over,
});
/** NDJSON. */
export const lines = (rows: readonly object[]) => rows.map((row) => JSON.stringify(row)).join('\n') + '\n';
export const fares = (count: number) => Array.from({ length: count }, (_, n) => fare(n + 1));
/** From 1 on. */
export const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1);
