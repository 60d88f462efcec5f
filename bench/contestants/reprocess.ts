import { createPool } from '../../src/db/pool.ts';
import { backfillRowsSql, expectPrices } from '../data/backfill-rows.ts';
import type { BackfillRows, Spread } from '../data/backfill-rows.ts';
import { firstPieces, timelineDdl } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';

/**
 * What one does without emend: the whole table computed anew from all that was ever written, into a table that is then swapped
 * in. One statement over the log, and a primary key; no history.
 */
export function reprocess(name: string, spread: Spread): Contestant<BackfillRows> {
  const keys = spread.keys * spread.apart;
  return {
    name,
    open: async (servers) => {
      const url = await servers.copyOf(`log of a timeline of ${keys} keys`, async (template) => {
        const pool = createPool({ url: template, applicationName: 'bench' });
        for (const statement of [
          timelineDdl('text'),
          `create table public.log as
           select p.product_id, daterange(p.valid_from, p.valid_to) as period, p.price, p.version
           from (${firstPieces(keys, 'text')}) as p (product_id, valid_from, valid_to, price, version)`,
          'vacuum (analyze)',
        ])
          await pool.query(statement);
        await pool.end();
      });
      const pool = createPool({ url, applicationName: 'bench', max: 1 });
      await pool.query('set statement_timeout = 0');
      await pool.query(`set work_mem = '256MB'`);
      await pool.query(`set maintenance_work_mem = '512MB'`);
      return {
        prepare: async (rows) => {
          // what was promoted before has been reverted
          await pool.query('delete from public.log where version > 1000000000');
          await pool.query(
            `insert into public.log
             select r.product_id, daterange(r.valid_from, r.valid_to), r.price, 1000000000 + r.n
             from (${backfillRowsSql(spread, rows)}) as r`,
          );
          await pool.query('vacuum (analyze) public.log');
          await pool.query('checkpoint');
          return {
            rows: rows.last - rows.first + 1,
            run: async () => {
              const start = performance.now();
              await pool.query(reprocessSql);
              const microseconds = (performance.now() - start) * 1_000;
              await expectPrices(pool, spread, rows);
              return microseconds;
            },
          };
        },
        verify: async () => {}, // each round was
        close: async () => {
          await pool.end();
          await servers.drop(url);
        },
      };
    },
  };
}

/** Each row keeps what no later one of its key covers. One transaction: nobody sees a half of it. */
const reprocessSql = `
  begin;
  create table public.prices_new (like public.prices);
  insert into public.prices_new (product_id, valid_from, valid_to, price)
  select w.product_id, lower(part), upper(part), w.price
  from (
    select l.product_id, l.price,
      l.period::datemultirange - coalesce(range_agg(l.period) over (
        partition by l.product_id order by l.version desc rows between unbounded preceding and 1 preceding), '{}') as won
    from public.log l
  ) as w
  cross join lateral unnest(w.won) as part;
  alter table public.prices_new add primary key (product_id, valid_from);
  drop table public.prices;
  alter table public.prices_new rename to prices;
  commit`;
