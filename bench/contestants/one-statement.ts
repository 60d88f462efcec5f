import { createPool } from '../../src/db/pool.ts';
import { mergeSettings } from '../../src/merge/merge.ts';
import { slices } from '../data/corrections.ts';
import type { Correction, RowColumns } from '../data/corrections.ts';
import type { Expected } from '../data/expected.ts';
import type { Contestant } from '../harness/contestant.ts';

export interface StatementWork {
  /** Contestants with the same tables get copies of the same files. */
  readonly tables: { readonly name: string; readonly statements: readonly string[] };
  /** Takes one array of texts a column. */
  readonly sql: string;
  readonly columns: RowColumns;
  readonly batchRows: number;
  /** Left out: all of the work. The figures are per row. */
  readonly atMostRows?: number;
  expected(): Expected;
}

/** The limit: one hand-written statement a batch, in a transaction of its own; no ledger, no history, no locks. */
export function oneStatement(name: string, work: StatementWork): Contestant<Correction[]> {
  return {
    name,
    open: async (server) => {
      const url = await server.copyOf(work.tables.name, async (template) => {
        const filling = createPool({ url: template, applicationName: 'bench' });
        for (const statement of [...work.tables.statements, 'vacuum (analyze)'])
          await filling.query(statement);
        await filling.end();
      });
      // with emend's settings: the planner's own choice reads the whole table for each batch
      const pool = createPool({ url, applicationName: 'bench', settings: mergeSettings });
      const expected = work.expected();
      return {
        prepare: (all) => {
          const corrections = all.slice(0, work.atMostRows);
          const batches = slices(corrections, work.batchRows).map((slice) =>
            Object.values(work.columns).map((column) => slice.map(column)),
          );
          expected.add(corrections);
          return {
            rows: corrections.length,
            run: async () => {
              for (const batch of batches) await pool.query(work.sql, batch);
            },
          };
        },
        verify: () => expected.check(pool),
        close: async () => {
          await pool.end();
          await server.drop(url);
        },
      };
    },
  };
}
