import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { createPool } from '../../src/db/pool.ts';
import type { Stream, Writing } from '../data/stream.ts';
import type { BenchServer } from '../harness/server.ts';

export type Write = (writing: Writing) => Promise<void>;

/**
 * Writes rows of the stream as fast as the source takes them: a procedure that commits, so that no client is in the way.
 *
 * @param insertSql a statement that writes the rows of a select
 * @param variables more declarations of the procedure, for a statement that returns something
 */
export async function createWriter(
  source: Pool,
  stream: Stream,
  insertSql: (rowsSql: string) => string,
  variables = '',
): Promise<Write> {
  await source.query(`
    create procedure public.write_rows(first bigint, last bigint, per bigint) language plpgsql as $$
    declare
      head bigint := first;
      tail bigint;
      ${variables}
    begin
      while head <= last loop
        tail := least(head + per - 1, last);
        ${insertSql(stream.rowsSql('head', 'tail'))};
        commit;
        head := tail + 1;
      end loop;
    end $$`);
  return async ({ first, last, perTransaction }) => {
    await source.query('call public.write_rows($1, $2, $3)', [first, last, perTransaction]);
  };
}

/** `insert into <table> (<columns>)`, for the rows of a select. */
export function insertInto(table: string, { columns }: Stream, suffix = ''): (rowsSql: string) => string {
  return (rowsSql) => `insert into ${table} (${columns.join(', ')}) ${rowsSql} ${suffix}`;
}

/** A log as one would make it without emend. */
export function plainLogDdl({ target, ddl }: Stream): string {
  return `
    ${ddl};
    create table public.log as select * from public.${target} with no data;
    alter table public.log add column id bigint generated always as identity primary key;
    drop table public.${target}`;
}

export interface Place {
  readonly url: string;
  readonly pool: Pool;
  readonly close: () => Promise<void>;
}

/** A database of a contestant, with a pool of the bench's own. */
export async function openPlace(server: BenchServer): Promise<Place> {
  const url = await server.empty();
  const pool = createPool({ url, applicationName: 'bench' });
  return {
    url,
    pool,
    close: async () => {
      // a slot that has no reader goes with its database
      await pool.query(
        `select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database() and active`,
      );
      await untilFound(
        pool,
        `select where not exists (select from pg_replication_slots where database = current_database() and active)`,
      );
      await pool.end();
      await server.drop(url);
    },
  };
}

export function databaseOf({ url }: Place): string {
  return new URL(url).pathname.slice(1);
}

const pollMs = 5;
const limitMs = 900_000;

/** Asks the server until the statement returns a row. One look-up each time: it costs the contestant next to nothing. */
export async function untilFound(pool: Pool, sql: string): Promise<void> {
  const deadline = performance.now() + limitMs;
  while ((await pool.query(sql)).rows.length === 0) {
    if (performance.now() > deadline) throw new Error(`not within ${limitMs / 1000} s: ${sql}`);
    await sleep(pollMs);
  }
}

/** The slot's reader has confirmed all that is written now, also what others have written meanwhile. */
export async function untilCaughtUp(source: Pool): Promise<void> {
  const { rows } = await source.query<{ lsn: string }>('select pg_current_wal_flush_lsn()::text as lsn');
  await untilFound(
    source,
    `select from pg_replication_slots
     where database = current_database() and active and confirmed_flush_lsn >= '${rows[0]!.lsn}'::pg_lsn`,
  );
}

/** What one contestant wrote is on disk before another one's turn. */
export async function checkpoint(...pools: readonly Pool[]): Promise<void> {
  for (const pool of pools) await pool.query('checkpoint');
}
