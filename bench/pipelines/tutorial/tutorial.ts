import { fileURLToPath } from 'node:url';
import type { Stream, Writing } from '../../data/stream.ts';
import type { Contestant } from '../../harness/contestant.ts';
import { startProgram } from '../program.ts';
import { programmed } from '../programmed.ts';
import { createWriter, databaseOf, insertInto, openPlace, plainLogDdl } from '../writer.ts';

const files = ['../run-program.mjs', './program.ts'].map((file) =>
  fileURLToPath(new URL(file, import.meta.url)),
);

/**
 * The design of the tutorials: a row of the stream is a job on BullMQ, and a job is one `insert … on conflict`. Kindly built: rows
 * are added in bulk, fifty jobs are worked on at a time, and the version guards the order.
 */
export function tutorialDesign(name: string, stream: Stream, atMostRows: number): Contestant<Writing> {
  return programmed(name, {
    stream,
    atMostRows,
    between: 'stands still',
    build: async (servers) => {
      const source = await openPlace(servers.source);
      const store = await openPlace(servers);
      const slot = databaseOf(source);
      const redisUrl = await servers.redisUrl();
      await source.pool.query(plainLogDdl(stream));
      await source.pool.query(`create publication bench for table public.log with (publish = 'insert')`);
      await source.pool.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slot]);
      await store.pool.query(stream.ddl);
      await store.pool.query(`alter table public.${stream.target} add column version bigint not null`);
      return {
        source: source.pool,
        store: store.pool,
        write: await createWriter(source.pool, stream, insertInto('public.log', stream)),
        start: () =>
          startProgram([process.execPath, ...files] as [string, ...string[]], {
            SOURCE_URL: source.url,
            STORE_URL: store.url,
            REDIS_URL: redisUrl,
            SLOT: slot,
          }),
        close: async () => {
          await source.close();
          await store.close();
        },
      };
    },
  });
}
