import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { copyCsv, writeCsv } from '../data/csv-file.ts';
import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import { openEmendInstall } from './emend-install.ts';
import { checkpoint, databaseOf, openPlace, untilCaughtUp, untilFound } from './writer.ts';

function fileOf({ first }: Writing): string {
  return join(tmpdir(), `emend-bench-${process.pid}-${first}.csv`);
}

function selectOf(stream: Stream, { first, last }: Writing): string {
  const rows = stream.rowsSql(`${first}::bigint`, `${last}::bigint`);
  return `select * from (${rows}) as r (${stream.columns.join(', ')})`;
}

/** A CSV file, by `emend backfill load`, until the store has staged all of it, counted and digested. Each is abandoned then. */
export function backfillLoad(name: string, stream: Stream): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const install = await openEmendInstall(servers, stream);
      const { cli, source, store } = install;
      return {
        prepare: async (writing) => {
          const [backfill, file] = [`b-${writing.first}`, fileOf(writing)];
          await writeCsv(source.pool, file, selectOf(stream, writing));
          await checkpoint(source.pool, store.pool);
          const running = await install.startBoth();
          const reached = (state: string): Promise<void> =>
            untilFound(
              store.pool,
              `select from emend.backfill_event where backfill = '${backfill}' and state = '${state}'`,
            );
          return {
            rows: writing.last - writing.first + 1,
            run: async () => {
              const why = ['--target', stream.target, '--reason', 'bench', '--logic-version', 'bench'];
              await cli.expect(['backfill', 'open', backfill, ...why]);
              await cli.expect(['backfill', 'load', backfill, file]);
              await source.pool.query('select corrections.seal_backfill($1)', [backfill]);
              await reached('staged');
            },
            rest: async () => {
              await reached('checked');
              await expectStaged(store.pool, stream, writing);
              await cli.expect(['backfill', 'abandon', backfill, '--reason', 'bench']);
              await running.stop();
              rmSync(file);
            },
          };
        },
        verify: async () => {}, // each round was
        close: () => install.close(),
      };
    },
  };
}

/** @throws unless what is staged is what the file says, value by value */
async function expectStaged(store: Pool, stream: Stream, writing: Writing): Promise<void> {
  const columns = stream.columns.join(', ');
  const { rows } = await store.query<{ wrong: string }>(
    `select count(*) as wrong
     from (${selectOf(stream, writing)}) as e
     full join (select ${columns}, _id from emend.${stream.target}_staged) as s using (${columns})
     where s._id is null or e is null`,
  );
  if (rows[0]!.wrong !== '0') throw new Error(`${rows[0]!.wrong} rows are not staged as they were written`);
}

/** The same file by COPY into a table, and that table by PostgreSQL's own logical replication, with its default settings. */
export function copyAndReplicate(name: string, stream: Stream): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const source = await openPlace(servers.source);
      const store = await openPlace(servers);
      for (const { pool } of [source, store]) await pool.query(stream.ddl);
      await source.pool.query(`create publication bench for table public.${stream.target}`);
      const subscription = databaseOf(source);
      await store.pool.query(
        `create subscription ${subscription} connection '${source.url}' publication bench with (copy_data = false)`,
      );
      let last = 0;
      return {
        prepare: async (writing) => {
          const file = fileOf(writing);
          last = writing.last;
          await writeCsv(source.pool, file, selectOf(stream, writing));
          await checkpoint(source.pool, store.pool);
          await untilCaughtUp(source.pool);
          return {
            rows: writing.last - writing.first + 1,
            run: async () => {
              await copyCsv(source.pool, file, `public.${stream.target}`);
              await untilFound(store.pool, stream.isVisibleSql(writing.last));
            },
            rest: async () => rmSync(file),
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
