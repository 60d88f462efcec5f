import type { ClientBase, Pool } from 'pg';
import { days, daysPerPiece, daySql, keySql, piecesPerKey, priceSql } from './corrections.ts';

/**
 * The rows of backfills over the timelines of `price-timeline.ts`, numbered from 1. A row is a function of its number, so all
 * contestants have the same ones; its price is none that stood before.
 */
export interface BackfillRows {
  readonly first: number;
  readonly last: number;
}

/** Keys that have corrections; a larger table has them as far apart as it is larger. */
export interface Spread {
  readonly keys: number;
  readonly apart: number;
}

const price = `(n % 100000 + 0.5)::numeric(10, 2)`;

function correctionSql({ keys, apart }: Spread): { key: string; from: string; to: string } {
  const part = (seed: number, below: string) => `abs(hashint8extended(n, ${seed}) % ${below})`;
  const length = `(1 + ${part(2, '10')})`;
  const from = part(3, `(${days} - ${length} + 1)`);
  return { key: `(${part(1, String(keys))} * ${apart})`, from, to: `(${from} + ${length})` };
}

/** SQL: number, key, period and price. */
export function backfillRowsSql(spread: Spread, { first, last }: BackfillRows): string {
  const { key, from, to } = correctionSql(spread);
  return `
    select n, ${keySql('text', key)} as product_id, ${daySql(from)} as valid_from, ${daySql(to)} as valid_to, ${price} as price
    from generate_series(${first}::bigint, ${last}::bigint) n`;
}

/** Keys that are compared day by day: one in so many. */
const checkedOneIn = 10;

/**
 * @param corrections the rows that are believed: each day has the price of the last one that covers it, and else that of the
 *   piece which stood there at first. Null: none of them.
 * @throws unless it is so
 */
export async function expectPrices(
  pool: Pool | ClientBase,
  spread: Spread,
  corrections: BackfillRows | null,
): Promise<void> {
  const { first, last } = corrections ?? { first: 1, last: 0 };
  const { key, from, to } = correctionSql(spread);
  const { rows } = await pool.query<{ wrong: string }>(
    `with checked as (
       select k * ${spread.apart} as key from generate_series(0, ${spread.keys} - 1, ${checkedOneIn}) k
     ),
     correction as (
       select n, ${price} as price, ${key} as key, ${from} as first_day, ${to} as end_day
       from generate_series(${first}::bigint, ${last}::bigint) n
     ),
     painted as (
       select k.key, day, coalesce(
         (array_agg(c.price order by c.n desc) filter (where c.n is not null))[1],
         ${priceSql(`(k.key * ${piecesPerKey} + day / ${daysPerPiece} + 1)`)}
       ) as price
       from checked k
       cross join generate_series(0, ${days} - 1) day
       left join correction c on c.key = k.key and day >= c.first_day and day < c.end_day
       group by k.key, day
     ),
     standing as (
       select p.product_id, p.price, generate_series(p.valid_from, p.valid_to - 1, interval '1 day')::date as day
       from public.prices p
       where p.product_id in (select ${keySql('text', 'k.key')} from checked k)
     )
     select count(*) as wrong
     from (select ${keySql('text', 'p.key')} as product_id, ${daySql('p.day')} as day, p.price from painted p) e
     full join standing s using (product_id, day)
     where s.price is distinct from e.price`,
  );
  if (rows[0]!.wrong !== '0')
    throw new Error(`${rows[0]!.wrong} days have another price than was written last`);
}
