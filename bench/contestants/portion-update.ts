import type { Pool } from 'pg';
import type { Correction } from '../data/corrections.ts';
import type { Expected } from '../data/expected.ts';
import { paintTimeline } from '../data/painted-timeline.ts';
import { firstPieces, timelineColumns } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';
import { oneStatement } from './one-statement.ts';

export interface PortionWork {
  readonly keys: number;
  readonly batchRows: number;
  readonly atMostRows: number;
  /** Whether the extension keeps history too. */
  readonly systemVersioning: boolean;
}

/**
 * The timeline work as the extension `periods` offers it: an update of a portion, through a view whose trigger splits the rows. It
 * trusts the order, and leaves rows of one correction side by side.
 */
export function portionUpdate(name: string, work: PortionWork): Contestant<Correction[]> {
  const { keys, batchRows, atMostRows, systemVersioning } = work;
  return oneStatement(name, {
    tables: {
      name: `portions of ${keys} keys, system versioning ${systemVersioning}`,
      statements: [
        'create extension periods schema public cascade',
        tableDdl,
        `insert into public.prices (product_id, valid_from, valid_to, price, _version) ${firstPieces(keys, 'text')}`,
        `select periods.add_period('public.prices', 'validity', 'valid_from', 'valid_to')`,
        `select periods.add_for_portion_view('public.prices', 'validity')`,
        ...(systemVersioning
          ? [
              `select periods.add_system_time_period('public.prices')`,
              `select periods.add_system_versioning('public.prices')`,
            ]
          : []),
        correctDdl,
      ],
    },
    sql: 'select public.correct_prices($1, $2, $3, $4, $5)',
    columns: { ...timelineColumns('text'), _version: ({ id }) => String(id) },
    batchRows,
    atMostRows,
    expected: () => {
      const painted = paintTimeline(keys, 'text', joinedSql);
      return systemVersioning ? withFirstBelief(painted, keys) : painted;
    },
  });
}

/**
 * The trigger writes what is left of a row before it cuts the row, and does not say its primary key: so that has to be a number of
 * the server's, and neither the extension's own key without overlaps nor a unique start lets it through.
 */
const tableDdl = `
  create table public.prices (
    price_id bigint generated always as identity primary key,
    product_id text not null,
    valid_from date not null,
    valid_to date not null,
    price numeric(10, 2) not null,
    _version bigint not null,
    unique (product_id, valid_from, valid_to)
  )`;

/**
 * A batch in one call. The trigger takes each row as it stood when its statement began, so a statement has one correction of a
 * key: the first ones of all keys, then the second ones.
 */
const correctDdl = `
  create function public.correct_prices(
    product_ids text[], starts text[], ends text[], prices text[], versions text[]
  ) returns void language plpgsql as $$
  begin
    for turn in 1 .. cardinality(product_ids) loop
      update public.prices__for_portion_of_validity p
      set valid_from = a.valid_from, valid_to = a.valid_to, price = a.price, _version = a._version
      from (
        select product_id, valid_from::date, valid_to::date, price::numeric, _version::bigint,
          row_number() over (partition by product_id order by _version::bigint) as nth
        from unnest(product_ids, starts, ends, prices, versions)
          as u (product_id, valid_from, valid_to, price, _version)
      ) a
      where a.nth = turn
        and p.product_id = a.product_id and p.valid_from < a.valid_to and p.valid_to > a.valid_from;
      exit when not found;
    end loop;
  end $$`;

/** The rows that stand, those of one version that touch joined. */
const joinedSql = `(
  select product_id, min(valid_from) as valid_from, max(valid_to) as valid_to, price, _version
  from (
    select *, count(*) filter (where not goes_on) over (partition by product_id order by valid_from) as piece
    from (
      select *, coalesce((lag(_version) over key, lag(valid_to) over key) = (_version, valid_from), false) as goes_on
      from public.prices
      window key as (partition by product_id order by valid_from)
    ) one_after_the_other
  ) in_pieces
  group by product_id, piece, price, _version
)`;

/** History is part of the work: what was believed before all corrections can still be asked. */
function withFirstBelief(expected: Expected, keys: number): Expected {
  return {
    ...expected,
    check: async (pool) => {
      await expected.check(pool);
      await checkFirstBelief(pool, keys);
    },
  };
}

async function checkFirstBelief(pool: Pool, keys: number): Promise<void> {
  const { rows } = await pool.query<{ wrong: string }>(`
    select count(*) as wrong
    from (${firstPieces(keys, 'text')}) as f (product_id, valid_from, valid_to, price, _version)
    full join public.prices__as_of('-infinity') h using (product_id, valid_from, valid_to, price, _version)
    where f.product_id is null or h.product_id is null`);
  if (rows[0]!.wrong !== '0')
    throw new Error(`${rows[0]!.wrong} pieces of history are not those of the beginning`);
}
