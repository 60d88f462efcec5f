import { createPool } from '../../src/db/pool.ts';
import { mergeSettings } from '../../src/merge/merge.ts';
import { backfillRowsSql, expectPrices } from '../data/backfill-rows.ts';
import type { BackfillRows, Spread } from '../data/backfill-rows.ts';
import { firstPieces, timelineDdl } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';
import { anyOrderSql } from './statement-timeline.ts';

/**
 * The same change of the table in one statement, as a specialist would write it for this table alone: right in any order, without
 * ledger, history, checks or fence, and nothing to take it back by. Each round has a fresh copy of what stood at first.
 */
export function promoteByStatement(name: string, spread: Spread): Contestant<BackfillRows> {
  const keys = spread.keys * spread.apart;
  return {
    name,
    open: async (servers) => {
      const fill = async (url: string): Promise<void> => {
        const pool = createPool({ url, applicationName: 'bench' });
        for (const statement of [
          timelineDdl('text'),
          'alter table public.prices add column _version bigint not null',
          `insert into public.prices ${firstPieces(keys, 'text')}`,
          'vacuum (analyze)',
        ])
          await pool.query(statement);
        await pool.end();
      };
      const copy = () => servers.copyOf(`plain timeline of ${keys} keys`, fill);
      return {
        prepare: async (rows) => {
          const url = await copy();
          const pool = createPool({ url, applicationName: 'bench', settings: mergeSettings });
          await pool.query(`create table public.staged as ${backfillRowsSql(spread, rows)}`);
          await pool.query('analyze public.staged');
          // the files are new, and what the others read is warm
          await pool.query(
            'select count(*) from (select p.* from public.prices p order by p.product_id, p.valid_from) as p',
          );
          await pool.query('checkpoint');
          return {
            rows: rows.last - rows.first + 1,
            run: async () => {
              const start = performance.now();
              await pool.query('set statement_timeout = 0');
              await pool.query(
                anyOrderSql(
                  `select s.product_id, daterange(s.valid_from, s.valid_to) as period, s.price, 1000000000 + s.n as _version from public.staged s`,
                ),
              );
              const microseconds = (performance.now() - start) * 1_000;
              await expectPrices(pool, spread, rows);
              return microseconds;
            },
            rest: async () => {
              await pool.end();
              await servers.drop(url);
            },
          };
        },
        verify: async () => {}, // each round was
        close: async () => {},
      };
    },
  };
}
