import { noAbort } from '../../test/support/store.ts';
import { batchOf, slices } from '../data/corrections.ts';
import type { Correction, RowColumns } from '../data/corrections.ts';
import { expectLedger, openEmendStore } from '../data/emend-store.ts';
import type { Layout } from '../data/emend-store.ts';
import type { Expected } from '../data/expected.ts';
import type { Contestant } from '../harness/contestant.ts';

export interface EmendWork {
  readonly layout: Layout;
  /** Rows of the beginning: their ids are the first ones. */
  readonly firstRows: number;
  readonly columns: RowColumns;
  readonly batchRows: number;
  /** Left out: all of the work. Small batches take long, and the figures are per row. */
  readonly atMostRows?: number;
  expected(): Expected;
}

/** emend's merge into a store as `emend start` has it, with ledger, history and locks; one job after the other. */
export function emendMerge(name: string, work: EmendWork): Contestant<Correction[]> {
  return {
    name,
    open: async (server) => {
      const store = await openEmendStore(server, work.layout);
      const expected = work.expected();
      const ledger = { rows: work.firstRows, lastId: work.firstRows };
      return {
        prepare: (all) => {
          const corrections = all.slice(0, work.atMostRows);
          const batches = slices(corrections, work.batchRows).map((slice) =>
            batchOf(work.layout.declaration.name, work.columns, slice),
          );
          expected.add(corrections);
          ledger.rows += corrections.length;
          ledger.lastId = corrections.at(-1)!.id;
          const clock = store.startClock();
          return {
            rows: corrections.length,
            run: async () => {
              for (const batch of batches) await store.handle(batch, noAbort);
            },
            rest: () => clock.stop(),
          };
        },
        verify: async () => {
          await expected.check(store.pool);
          await expectLedger(store.pool, ledger);
        },
        close: () => store.close(),
      };
    },
  };
}
