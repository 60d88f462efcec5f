import { days, daySql, keySql } from './corrections.ts';
import { firstPieces, timelineDdl } from './price-timeline.ts';
import type { Stream } from './stream.ts';

/** Keys that are compared day by day at the end: one in so many. */
const checkedOneIn = 10;

/** SQL of row n: its key, the first day of its period of 1 to 10 days, and the one behind the last. */
function correctionSql(keys: number): { key: string; from: string; to: string } {
  const part = (seed: number, below: string) => `abs(hashint8extended(n, ${seed}) % ${below})`;
  const length = `(1 + ${part(2, '10')})`;
  const from = part(3, `(${days} - ${length} + 1)`);
  return { key: part(1, String(keys)), from, to: `(${from} + ${length})` };
}

/** Corrections of prices, whose price is the number of the row; ten pieces a key stand before, of the price 0. */
export function priceStream(keys: number): Stream {
  const { key, from, to } = correctionSql(keys);
  return {
    target: 'prices',
    declaration: `timeline('public.prices', { key: ['product_id'], period: ['valid_from', 'valid_to'] })`,
    ddl: timelineDdl('text'),
    base: `
      insert into public.prices (product_id, valid_from, valid_to, price)
      select p.product_id, p.valid_from, p.valid_to, 0
      from (${firstPieces(keys, 'text')}) as p (product_id, valid_from, valid_to, price, version)`,
    columns: ['product_id', 'valid_from', 'valid_to', 'price'],
    rowsSql: (first, last) =>
      `select ${keySql('text', key)}, ${daySql(from)}, ${daySql(to)}, n from generate_series(${first}, ${last}) n`,
    // another correction may have covered it since: only the last one surely stands
    isVisibleSql: (number) => `
      select from public.prices p, (values (${number}::bigint)) as v (n)
      where p.product_id = ${keySql('text', key)} and p.price = n`,
    check: async (store, last) => {
      const { rows } = await store.query<{ wrong: string }>(
        `with painted as (
           select k as key, day, coalesce(max(c.n), 0) as n
           from generate_series(0, ${keys} - 1, ${checkedOneIn}) k
           cross join generate_series(0, ${days} - 1) day
           left join (
             select n, ${key} as key, ${from} as first_day, ${to} as end_day from generate_series(1::bigint, $1) n
           ) c on c.key = k and day >= c.first_day and day < c.end_day
           group by 1, 2
         ),
         standing as (
           select p.product_id, p.price, generate_series(p.valid_from, p.valid_to - 1, interval '1 day')::date as day
           from public.prices p
           where substr(p.product_id, 9)::int % ${checkedOneIn} = 0
         )
         select count(*) as wrong
         from (select ${keySql('text', 'key')} as product_id, ${daySql('day')} as day, n from painted) e
         full join standing s using (product_id, day)
         where s.price is distinct from e.n`,
        [last],
      );
      if (rows[0]!.wrong !== '0')
        throw new Error(`${rows[0]!.wrong} days do not have the price that was written last`);
    },
  };
}
