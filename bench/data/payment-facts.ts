import { dayText, keySql, keyText, piecesPerKey, priceSql, priceText } from './corrections.ts';
import type { Correction, RowColumns } from './corrections.ts';
import { ledgerOf } from './emend-store.ts';
import type { Layout } from './emend-store.ts';
import type { Expected } from './expected.ts';

export interface FactsShape {
  readonly rows: number;
  /** Superseded rows that each has at the beginning. */
  readonly historyPerRow: number;
}

export const factsDdl = `
  create table public.payments (
    payment_id text primary key,
    paid_on date not null,
    amount numeric(10, 2) not null
  )`;

export function factsLayout({ rows, historyPerRow }: FactsShape): Layout {
  return {
    name: `${rows} facts, history ${historyPerRow}`,
    ddl: factsDdl,
    declaration: {
      name: 'payments',
      kind: 'facts',
      schema: 'public',
      table: 'payments',
      key: ['payment_id'],
      period: null,
      eventTime: null,
      version: null,
      exclusion: false,
      allow: [],
    },
    load: [
      `insert into public.payments (payment_id, paid_on, amount, _version, _known_from)
       select p.*, timestamptz '2026-01-01' + p.version * interval '1 microsecond'
       from (${firstPayments(rows)}) as p (payment_id, paid_on, amount, version)`,
      ledgerOf('payments', rows),
      `insert into emend.payments_history (payment_id, paid_on, amount, _version, _known_from, _known_to)
       select ${keySql('text', 'r')}, '2026-01-01', 1, -1,
         timestamptz '2025-01-01' + h * interval '1 minute', timestamptz '2025-01-01' + (h + 1) * interval '1 minute'
       from generate_series(0, ${historyPerRow} - 1) h cross join generate_series(0, ${rows} - 1) r`,
    ],
  };
}

/** A select of the rows of the beginning: key, date, amount, version. */
export function firstPayments(rows: number): string {
  return `
    select ${keySql('text', 'r')}, date '2026-01-01', ${priceSql('(r + 1)')}, r + 1
    from generate_series(0, ${rows} - 1) r`;
}

export function factsColumns(rows: number): RowColumns {
  return {
    payment_id: (correction) => paymentId(rows, correction),
    paid_on: ({ from }) => dayText(from),
    amount: ({ id }) => priceText(id),
  };
}

/** The same correction, taken as one of a fact. */
function paymentId(rows: number, { key, row }: Correction): string {
  return keyText('text', (key * piecesPerKey + row) % rows);
}

/** The last correction of each row. */
export function expectFacts(count: number): Expected {
  const versions = new Map<string, number>();
  for (let row = 0; row < count; row += 1) versions.set(keyText('text', row), row + 1);
  return {
    add: (corrections) => {
      for (const correction of corrections) versions.set(paymentId(count, correction), correction.id);
    },
    check: async (pool) => {
      const { rows } = await pool.query<{ id: string; version: string; right: string }>(
        `select p.payment_id as id, p._version::text as version, (p.amount = p._version % 10000)::text as right
         from public.payments p`,
      );
      if (rows.length !== versions.size) throw new Error(`${rows.length} payments, and not ${versions.size}`);
      const wrong = rows.find(
        ({ id, version, right }) => right !== 'true' || Number(version) !== versions.get(id),
      );
      if (wrong)
        throw new Error(`${wrong.id} is of version ${wrong.version}, and not ${versions.get(wrong.id)}`);
    },
  };
}
