import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import { openWrittenInstall } from './emend-install.ts';
import { checkpoint, untilFound } from './writer.ts';

/**
 * emend end to end: reader and worker as processes of their own, with ledger and history, through Redis. They are started for
 * the turn, and stopped after it, since they tick and sweep all the time; neither is timed.
 */
export function emendPipeline(name: string, stream: Stream): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const install = await openWrittenInstall(servers, stream);
      const { source, store } = install;
      let last = 0;
      return {
        prepare: async (writing) => {
          last = writing.last;
          await checkpoint(source.pool, store.pool);
          const { reader, worker, stop } = await install.startBoth();
          const rows = writing.last - writing.first + 1;
          const used: Record<string, number> = {};
          return {
            rows,
            run: async () => {
              const before = { reader: reader.cpuMicroseconds(), worker: worker.cpuMicroseconds() };
              await install.write(writing);
              await untilMerged(store.pool, writing.last);
              note(`${name}: CPU of the reader`, before.reader, reader.cpuMicroseconds());
              note(`${name}: CPU of the worker`, before.worker, worker.cpuMicroseconds());
            },
            more: () => used,
            rest: stop,
          };

          function note(what: string, from: number | undefined, to: number | undefined): void {
            if (from !== undefined && to !== undefined) used[what] = (to - from) / rows;
          }
        },
        verify: async () => {
          await stream.check(store.pool, last);
          await expectMergedOnce(store.pool, last);
        },
        close: () => install.close(),
      };
    },
  };
}

type Store = Parameters<typeof untilFound>[0];

/** Batches are merged in any order, so that the last row stands says nothing: the merges are counted. */
export async function untilMerged(store: Store, rows: number): Promise<void> {
  await untilFound(store, `select from emend.merge having sum(rows) >= ${rows}`);
}

/** Rows of promoted backfills are among them. */
export async function rowsMerged(store: Store): Promise<number> {
  const { rows } = await store.query<{ rows: string | null }>('select sum(rows) as rows from emend.merge');
  return Number(rows[0]!.rows);
}

/** Law 6 is part of the work. Adopted rows are in no ledger. */
async function expectMergedOnce(store: Store, rows: number): Promise<void> {
  const { rows: found } = await store.query<{ rows: string }>(
    `select count(*) as rows from emend.ledger where dismissed is null`,
  );
  if (found[0]!.rows !== String(rows))
    throw new Error(`the ledger has ${found[0]!.rows} rows, and not ${rows}`);
}
