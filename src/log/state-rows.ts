import { getTableColumns } from 'drizzle-orm';
import { toCamelCase, toSnakeCase } from 'drizzle-orm/casing';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { TargetConfig } from '../config/define-config.ts';
import { isDrizzleTable } from '../config/table-ref.ts';
import type { Op } from '../change/batch.ts';
import { EmendError } from '../errors.ts';
import type { AppendColumn } from './append-columns.ts';
import { textOf } from './value-text.ts';

/** The rows of a call, column-wise. */
export interface StatedColumn {
  readonly column: AppendColumn;
  readonly texts: readonly (string | null)[];
  /** Rows that left the column out and get its default, if there are any. */
  readonly defaulted: readonly boolean[] | null;
}

interface Call {
  readonly target: TargetConfig;
  readonly name: string;
  readonly op: Op;
  readonly columns: readonly AppendColumn[];
  readonly rows: readonly unknown[];
}

/**
 * Checks the rows and turns every value into text.
 *
 * @throws EmendError `correction_invalid` with the row's place and the column
 */
export function stateRows(call: Call): StatedColumn[] {
  const properties = propertiesOf(call);
  const rows = call.rows.map((row, index) => checkRow(call, properties, row, index));
  return [...properties].flatMap(([property, { column, drizzle }]) => {
    const isStated = rows.some((row) => row[property] !== undefined);
    const isGenerated = call.op === 'upsert' && (drizzle?.defaultFn ?? drizzle?.onUpdateFn) !== undefined;
    if (!isStated && !isGenerated) return [];
    const values = rows.map((row) => (row[property] === undefined ? generated(drizzle) : row[property]));
    const texts = values.map((value, index) =>
      textOf(encode(drizzle, value), { column, row: index, property }),
    );
    const leftOut = column.defaultSql === null ? [] : values.map((value) => value === undefined);
    return [{ column, texts, defaulted: leftOut.includes(true) ? leftOut : null }];
  });
}

interface Property {
  readonly column: AppendColumn;
  /** The column as Drizzle knows it, for a target that is a Drizzle table. */
  readonly drizzle: PgColumn | undefined;
}

/** By the name that a row has for it. Columns of emend are not a writer's to state. */
function propertiesOf({ target, columns }: Call): Map<string, Property> {
  const byName = new Map(
    columns.filter(({ name }) => !name.startsWith('_')).map((column) => [column.name, column]),
  );
  if (!isDrizzleTable(target.table)) {
    return new Map([...byName].map(([name, column]) => [name, { column, drizzle: undefined }]));
  }
  const properties = new Map<string, Property>();
  for (const [property, drizzle] of Object.entries(getTableColumns(target.table))) {
    const column = namesOf(property, drizzle)
      .map((name) => byName.get(name))
      .find((found) => found !== undefined);
    if (column) properties.set(property, { column, drizzle });
  }
  return properties;
}

/** A column that was declared without a name is called by the `casing` of the application's database object. */
function namesOf(property: string, { name, keyAsName }: PgColumn): string[] {
  return keyAsName ? [name, toSnakeCase(property), toCamelCase(property)] : [name];
}

function checkRow(
  call: Call,
  properties: ReadonlyMap<string, Property>,
  row: unknown,
  index: number,
): Readonly<Record<string, unknown>> {
  if (typeof row !== 'object' || row === null || Array.isArray(row)) {
    throw new EmendError('correction_invalid', `row ${index} is not an object`, {
      remedy: 'Give each row as an object of columns and values.',
    });
  }
  const stated = Object.entries(row).filter(([, value]) => value !== undefined);
  for (const [property] of stated) {
    if (!properties.has(property)) throw unknownColumn(call, properties, property, index);
  }
  if (call.op !== 'upsert') refuseValues(call, properties, stated, index);
  if (stated.length === 0) {
    throw new EmendError('correction_invalid', `row ${index} states nothing`, {
      remedy: 'State at least the key.',
    });
  }
  return row as Record<string, unknown>;
}

function unknownColumn(
  { name }: Call,
  properties: ReadonlyMap<string, Property>,
  property: string,
  index: number,
): EmendError {
  return new EmendError(
    'correction_invalid',
    `row ${index}: corrections.${name} has no column for ${JSON.stringify(property)}`,
    {
      remedy: property.startsWith('_')
        ? 'Columns of emend are not stated in rows; reason and backfill are options of the call.'
        : `Its columns are ${[...properties.keys()].join(', ')}. Run emend migrate if a column is new.`,
    },
  );
}

/** Without values there is nothing to merge, so a value here is a mistake, most likely a wrong function. */
function refuseValues(
  { target, op }: Call,
  properties: ReadonlyMap<string, Property>,
  stated: readonly (readonly [string, unknown])[],
  index: number,
): void {
  const identity = [
    ...target.key,
    ...(target.kind === 'timeline' ? target.period : []),
    ...(target.version === undefined ? [] : [target.version]),
  ];
  const isIdentity = (property: string) =>
    identity.includes(property) || identity.includes(properties.get(property)!.column.name);
  const value = stated.find(([property, stating]) => stating !== null && !isIdentity(property));
  if (!value) return;
  throw new EmendError(
    'correction_invalid',
    `row ${index}: a ${op} has no value for ${JSON.stringify(value[0])}`,
    {
      remedy: `Give key and period only; to state values use correct().`,
    },
  );
}

/** Defaults that Drizzle makes in the application: `$defaultFn`, and `$onUpdateFn` where nothing else is. */
function generated(drizzle: PgColumn | undefined): unknown {
  if (!drizzle) return undefined;
  return drizzle.defaultFn ? drizzle.defaultFn() : drizzle.hasDefault ? undefined : drizzle.onUpdateFn?.();
}

/** A text for a number or a time is already what Postgres gets: Drizzle would cut it to what JavaScript can hold. */
function encode(drizzle: PgColumn | undefined, value: unknown): unknown {
  if (!drizzle || value === null || value === undefined) return value;
  // Drizzle would make a text of it, or null
  if (Number.isNaN(value)) return value;
  if (typeof value === 'string' && passesAsText.has(drizzle.dataType)) return value;
  if (value instanceof Date && ['string', 'date'].includes(drizzle.dataType)) return value;
  return drizzle.mapToDriverValue(value);
}

const passesAsText: ReadonlySet<string> = new Set([
  'string',
  'number',
  'bigint',
  'boolean',
  'date',
  'localDate',
]);
