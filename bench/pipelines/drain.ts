import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import { openWrittenInstall } from './emend-install.ts';
import { untilMerged } from './emend.ts';
import { checkpoint, untilCaughtUp } from './writer.ts';

/**
 * emend's workers alone: all is on the queue before they are started. Timed from the first merge to the last one, by the store's
 * commit timestamps, so that their start is not in it; and the rows of that first merge are none of its work.
 */
export function drain(name: string, stream: Stream, workers: number): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const install = await openWrittenInstall(servers, stream, 'merge: { concurrency: 1 },');
      const { source, store } = install;
      let last = 0;
      return {
        prepare: async (writing) => {
          last = writing.last;
          const written = writing.last - writing.first + 1;
          const reader = await install.start('reader');
          await untilCaughtUp(source.pool);
          const before = reader.cpuMicroseconds();
          await install.write(writing);
          await untilCaughtUp(source.pool);
          const used = (reader.cpuMicroseconds() ?? NaN) - (before ?? NaN);
          await reader.stop();
          await checkpoint(source.pool, store.pool);
          return {
            rows: written,
            run: async () => {
              const running = await Promise.all(
                Array.from({ length: workers }, () => install.start('worker')),
              );
              await untilMerged(store.pool, writing.last);
              await Promise.all(running.map((worker) => worker.stop()));
              return microsecondsOfMerges(writing, written);
            },
            more: () => (Number.isNaN(used) ? {} : { [`${name}: CPU of the reader`]: used / written }),
          };
        },
        verify: () => stream.check(store.pool, last),
        close: () => install.close(),
      };

      /** As if the rows of the first merge had taken as long as the others. */
      async function microsecondsOfMerges({ first }: Writing, written: number): Promise<number> {
        const { rows } = await store.pool.query<{ took: string; rows: string }>(
          `with merges as (
             select pg_xact_commit_timestamp(xmin) as at, count(*) as rows
             from public.${stream.target}
             where amount >= $1
             group by xmin
           )
           select (extract(epoch from max(at) - min(at)) * 1000000)::text as took,
             sum(rows) filter (where at > (select min(at) from merges))::text as rows
           from merges`,
          [first],
        );
        return (Number(rows[0]!.took) / Number(rows[0]!.rows)) * written;
      }
    },
  };
}
