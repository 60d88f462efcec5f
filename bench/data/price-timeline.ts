import {
  daySql,
  daysPerPiece,
  dayText,
  keySql,
  keyText,
  piecesPerKey,
  priceSql,
  priceText,
} from './corrections.ts';
import type { KeyForm, RowColumns } from './corrections.ts';
import { ledgerOf } from './emend-store.ts';
import type { Layout } from './emend-store.ts';

export interface TimelineShape {
  readonly keys: number;
  readonly form: KeyForm;
  /** Whether an exclusion constraint guards the periods. */
  readonly exclusion: boolean;
  /** Superseded rows that each key has at the beginning. */
  readonly historyPerKey: number;
}

export function timelineLayout({ keys, form, exclusion, historyPerKey }: TimelineShape): Layout {
  return {
    name: `timeline of ${keys} ${form} keys, exclusion ${exclusion}, history ${historyPerKey}`,
    ddl: timelineDdl(form),
    declaration: {
      name: 'prices',
      kind: 'timeline',
      schema: 'public',
      table: 'prices',
      key: ['product_id'],
      period: { from: 'valid_from', to: 'valid_to', mode: 'override' },
      eventTime: null,
      version: null,
      exclusion,
      allow: [],
    },
    load: [
      `insert into public.prices (product_id, valid_from, valid_to, price, _version, _known_from)
       select p.*, timestamptz '2026-01-01' + p.version * interval '1 microsecond'
       from (${firstPieces(keys, form)}) as p (product_id, valid_from, valid_to, price, version)`,
      ledgerOf('prices', keys * piecesPerKey),
      `insert into emend.prices_history (product_id, valid_from, valid_to, price, _version, _known_from, _known_to)
       select ${keySql(form, 'k')}, ${daySql('h % 89')}, ${daySql('h % 89 + 1')}, 1, -1,
         timestamptz '2025-01-01' + h * interval '1 minute', timestamptz '2025-01-01' + (h + 1) * interval '1 minute'
       from generate_series(0, ${historyPerKey} - 1) h cross join generate_series(0, ${keys} - 1) k`,
    ],
  };
}

export function timelineDdl(form: KeyForm): string {
  return `
    create table public.prices (
      product_id ${form} not null,
      valid_from date not null,
      valid_to date not null,
      price numeric(10, 2) not null,
      primary key (product_id, valid_from)
    )`;
}

/** A select of the rows of the beginning: key, period, price, version. */
export function firstPieces(keys: number, form: KeyForm): string {
  return `
    select ${keySql(form, 'k')}, ${daySql(`p * ${daysPerPiece}`)}, ${daySql(`(p + 1) * ${daysPerPiece}`)},
      ${priceSql(`(k * ${piecesPerKey} + p + 1)`)}, k * ${piecesPerKey} + p + 1
    from generate_series(0, ${keys} - 1) k cross join generate_series(0, ${piecesPerKey} - 1) p`;
}

export function timelineColumns(form: KeyForm): RowColumns {
  return {
    product_id: ({ key }) => keyText(form, key),
    valid_from: ({ from }) => dayText(from),
    valid_to: ({ to }) => dayText(to),
    price: ({ id }) => priceText(id),
  };
}
