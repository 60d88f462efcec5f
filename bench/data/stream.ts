import type { Pool } from 'pg';
import { daySql, keySql } from './corrections.ts';
import { factsDdl } from './payment-facts.ts';

/**
 * Rows that are written in a source, numbered from 1, and what has to stand in the store when the first so many have arrived.
 * A row is a function of its number, so all contestants write the same ones, and nobody's clock has a part in them.
 */
export interface Stream {
  readonly target: string;
  /** Its key in emend's configuration: the call that declares it. */
  readonly declaration: string;
  /** Creates the target, `public.<target>`. */
  readonly ddl: string;
  /** Rows that stand in the target before the first one is written. Left out: none. */
  readonly base?: string;
  readonly columns: readonly string[];
  /** SQL: a select of the columns, in the order of the numbers, which are bigints. */
  rowsSql(first: string, last: string): string;
  /** SQL: whether the row of this number is what stands. Asked where rows arrive in order. */
  isVisibleSql(number: number): string;
  /** @throws unless the first `last` rows have arrived, and nothing else */
  check(store: Pool, last: number): Promise<void>;
}

/** So many rows, in transactions of so many. */
export interface Writing {
  readonly first: number;
  readonly last: number;
  readonly perTransaction: number;
}

/** Keys that a mix of updates restates. Twice as many rows come before the first of these: no transaction has a key twice. */
export const rowsToRestate = 99_991;

/** `inserts`: each row is of a new key. `half`: once the keys to restate are there, every other row restates one. */
export type Mix = 'inserts' | 'half' | 'restated';

export const restatedRows = 1_000_000;

/** SQL: the number of the payment that row n states. */
const paymentSql: Record<Mix, (toRestate: number) => string> = {
  inserts: () => 'n',
  half: (toRestate) =>
    `case when n <= ${toRestate * 2} or n % 2 = 0 then n else 1 + (n * 7919) % ${toRestate} end`,
  restated: (toRestate) => `1 + abs(hashint8extended(n, 1) % ${toRestate})`,
};

/** Payments whose amount is the number of the row that stated them last. */
export function paymentStream(mix: Mix, toRestate: number): Stream {
  const payment = keySql('text', paymentSql[mix](toRestate));
  return {
    target: 'payments',
    declaration: `facts('public.payments', { key: ['payment_id'] })`,
    ddl: factsDdl,
    ...(mix === 'restated'
      ? {
          base: `
            insert into public.payments (payment_id, paid_on, amount)
            select ${keySql('text', 'r')}, date '2026-01-01', 0 from generate_series(1, ${toRestate}) r`,
        }
      : {}),
    columns: ['payment_id', 'paid_on', 'amount'],
    rowsSql: (first, last) =>
      `select ${payment}, ${daySql('n % 90')}, n from generate_series(${first}, ${last}) n`,
    isVisibleSql: (number) => `
      select from public.payments p, (values (${number}::bigint)) as v (n)
      where p.payment_id = ${payment} and p.amount = n`,
    check: async (store, last) => {
      const { rows } = await store.query<{ wrong: string }>(
        `select count(*) as wrong
         from (select ${payment} as payment_id, max(n) as n from generate_series(1::bigint, $1) n group by 1) e
         full join public.payments p using (payment_id)
         where p.amount is distinct from coalesce(e.n, 0)`,
        [last],
      );
      if (rows[0]!.wrong !== '0') throw new Error(`${rows[0]!.wrong} payments are not what was written last`);
    },
  };
}
