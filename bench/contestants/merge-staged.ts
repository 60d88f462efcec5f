import { mergeStaged } from '../../src/backfill/promotion.ts';
import { withClient } from '../../src/db/transaction.ts';
import { prepareTargets } from '../../src/merge/prepared-target.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { expectPrices } from '../data/backfill-rows.ts';
import type { BackfillRows, Spread } from '../data/backfill-rows.ts';
import { piecesPerKey } from '../data/corrections.ts';
import { openEmendStore } from '../data/emend-store.ts';
import { timelineLayout } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';
import { stage } from './promote.ts';

/** The merge of a promote alone: one statement with history and ledger, without fence, checks and commit. Rolled back each time. */
export function mergeStagedRows(name: string, spread: Spread): Contestant<BackfillRows> {
  const keys = spread.keys * spread.apart;
  const layout = timelineLayout({ keys, form: 'text', exclusion: false, historyPerKey: 0 });
  return {
    name,
    open: async (servers) => {
      const store = await openEmendStore(servers, layout);
      const { pool } = store;
      const resolved = await withClient(pool, (client) => resolveTargets(client, [layout.declaration]));
      const targets = [...(await prepareTargets(pool, resolved, '$1::timestamptz')).values()];
      return {
        prepare: async (rows) => {
          const backfill = `b-${rows.first}`;
          await stage(pool, backfill, spread, rows, keys * piecesPerKey);
          await pool.query('vacuum (analyze)');
          await pool.query('checkpoint');
          return {
            rows: rows.last - rows.first + 1,
            run: () =>
              withClient(pool, async (client) => {
                await client.query('begin');
                await client.query(`set local work_mem = '64MB'`);
                const start = performance.now();
                await mergeStaged(client, { store: pool, backfill, targets }, '2026-11-29 12:00:00+00');
                const microseconds = (performance.now() - start) * 1_000;
                await expectPrices(client, spread, rows);
                await client.query('rollback');
                return microseconds;
              }),
          };
        },
        verify: () => expectPrices(pool, spread, null),
        close: () => store.close(),
      };
    },
  };
}
