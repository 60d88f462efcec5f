import type { Correction } from '../data/corrections.ts';
import { expectFacts, factsColumns, factsDdl, firstPayments } from '../data/payment-facts.ts';
import type { Contestant } from '../harness/contestant.ts';
import { oneStatement } from './one-statement.ts';

/** A plain `insert … on conflict`, as one would write it for facts alone. */
export function statementFacts(
  name: string,
  { rows, batchRows }: { rows: number; batchRows: number },
): Contestant<Correction[]> {
  return oneStatement(name, {
    tables: {
      name: `${rows} plain facts`,
      statements: [
        factsDdl,
        'alter table public.payments add column _version bigint not null',
        `insert into public.payments ${firstPayments(rows)}`,
      ],
    },
    sql: upsertSql,
    columns: { ...factsColumns(rows), _version: ({ id }) => String(id) },
    batchRows,
    expected: () => expectFacts(rows),
  });
}

// `distinct on`: the statement cannot touch one row twice
const upsertSql = `
  insert into public.payments as p (payment_id, paid_on, amount, _version)
  select distinct on (a.payment_id) a.payment_id, a.paid_on::date, a.amount::numeric, a._version::bigint
  from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as a (payment_id, paid_on, amount, _version)
  order by a.payment_id, a._version::bigint desc
  on conflict (payment_id) do update set
    paid_on = excluded.paid_on, amount = excluded.amount, _version = excluded._version
  where excluded._version > p._version`;
