import { ident, identList } from '../db/identifier.ts';
import type { Op } from '../change/batch.ts';
import { EmendError } from '../errors.ts';
import type { Query } from './executor.ts';
import { logTable } from './log-columns.ts';
import type { StatedColumn } from './state-rows.ts';
import { arrayLiteral } from './value-text.ts';

interface Stamp {
  readonly op: Op;
  readonly reason?: string;
  readonly backfill?: string;
}

/**
 * One statement, unless its text would be larger than what drivers and servers take well.
 *
 * @throws EmendError `correction_invalid` for a reason that says nothing: it would be kept for ever
 */
export function insertStatements(
  name: string,
  columns: readonly StatedColumn[],
  stamp: Stamp,
  maxChars = 32_000_000,
): Query[] {
  if (stamp.reason?.trim() === '') {
    throw new EmendError('correction_invalid', `corrections.${name}: the reason is empty`, {
      remedy: 'Say why, or leave the reason out.',
    });
  }
  return slices(columns, maxChars).map(([from, to]) =>
    insertStatement(
      name,
      columns.map(({ column, texts, defaulted }) => ({
        column,
        texts: texts.slice(from, to),
        defaulted: defaulted?.slice(from, to) ?? null,
      })),
      stamp,
    ),
  );
}

/** Ranges of rows whose texts stay below `maxChars` together; a row that is larger stands alone. */
function slices(columns: readonly StatedColumn[], maxChars: number): [from: number, to: number][] {
  const count = columns[0]?.texts.length ?? 0;
  const ranges: [number, number][] = [];
  let from = 0;
  let chars = 0;
  for (let row = 0; row < count; row++) {
    const rowChars = columns.reduce((sum, { texts }) => sum + (texts[row]?.length ?? 4) + 3, 0);
    if (row > from && chars + rowChars > maxChars) {
      ranges.push([from, row]);
      from = row;
      chars = 0;
    }
    chars += rowChars;
  }
  return [...ranges, [from, count]];
}

/**
 * One parameter a column, whatever the number of rows (a statement takes 65,535), each an array of texts that is cast once.
 * The `order by` gives ids in the order of the rows: the later row of a call wins. Where some rows leave a column out, its
 * default is written out, since an insert has one list of columns for all.
 */
function insertStatement(name: string, columns: readonly StatedColumn[], stamp: Stamp): Query {
  const arrays = columns.flatMap(({ texts, defaulted }, index) => [
    { alias: `c${index}`, cast: '::text[]', value: arrayLiteral(texts) },
    ...(defaulted
      ? [{ alias: `d${index}`, cast: '::boolean[]', value: arrayLiteral(defaulted.map(String)) }]
      : []),
  ]);
  const stamps = [stamp.op, stamp.reason ?? null, stamp.backfill ?? null];
  const values = columns.map(({ column, defaulted }, index) => {
    const value = `a.c${index}::${column.type}`;
    return defaulted ? `case when a.d${index} then ${column.defaultSql} else ${value} end` : value;
  });
  const table = logTable({ name });
  const names = identList(columns.map(({ column }) => column.name));
  const aliases = [...arrays.map(({ alias }) => alias), 'place'].map(ident).join(', ');
  return {
    texts: [
      `insert into ${table} (${names}, _op, _reason, _backfill)\nselect ${values.join(', ')}, `,
      '::text, ',
      '::text, ',
      '::text\nfrom unnest(',
      ...arrays.slice(0, -1).map(({ cast }) => `${cast}, `),
      `${arrays.at(-1)!.cast}) with ordinality as a (${aliases})\nwhere corrections._require_array_nulls()\norder by a.place\nreturning _id::text as _id`,
    ],
    values: [...stamps, ...arrays.map(({ value }) => value)],
  };
}
