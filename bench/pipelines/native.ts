import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import {
  checkpoint,
  createWriter,
  databaseOf,
  insertInto,
  openPlace,
  untilCaughtUp,
  untilFound,
} from './writer.ts';

/**
 * PostgreSQL's own logical replication of the same rows, from a table into one with the same key, with its default settings: no
 * ledger, no history, and its apply worker does not wait for the disk (`synchronous_commit` of a subscription is off).
 *
 * @param suffix what an insert needs where rows are stated again: a row of the source table is updated then
 */
export function nativeReplication(name: string, stream: Stream, suffix = ''): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const source = await openPlace(servers.source);
      const store = await openPlace(servers);
      const subscription = databaseOf(source);
      for (const { pool } of [source, store]) await pool.query(stream.ddl);
      await source.pool.query(`create publication bench for table public.${stream.target}`);
      const write = await createWriter(
        source.pool,
        stream,
        insertInto(`public.${stream.target}`, stream, suffix),
      );
      await store.pool.query(
        `create subscription ${subscription} connection '${source.url}' publication bench with (copy_data = false)`,
      );
      const rest = async () => {
        await store.pool.query(`alter subscription ${subscription} disable`);
        await untilFound(
          source.pool,
          `select from pg_replication_slots where slot_name = '${subscription}' and not active`,
        );
      };
      await rest();
      let last = 0;
      return {
        prepare: async (writing) => {
          last = writing.last;
          await checkpoint(source.pool, store.pool);
          await store.pool.query(`alter subscription ${subscription} enable`);
          await untilCaughtUp(source.pool);
          return {
            rows: writing.last - writing.first + 1,
            run: async () => {
              await write(writing);
              await untilFound(store.pool, stream.isVisibleSql(writing.last));
            },
            rest,
          };
        },
        verify: () => stream.check(store.pool, last),
        close: async () => {
          await store.pool.query(`drop subscription ${subscription}`);
          await store.close();
          await source.close();
        },
      };
    },
  };
}
