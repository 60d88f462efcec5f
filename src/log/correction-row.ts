import type { PgTable } from 'drizzle-orm/pg-core';
import type { TargetConfig } from '../config/define-config.ts';

/**
 * A row for `correct()`: typed by the target's Drizzle table, or by column names for a `'schema.table'` target.
 *
 * Like `$inferInsert`, but: the start of a period is always stated (no clock makes a valid time), the end may be left out
 * (it is open then), and is not there at all where each holds until the next; and a text may stand for a Date, which cuts
 * microseconds and has no infinity.
 */
export type CorrectionRow<T extends TargetConfig> = T['table'] extends PgTable
  ? TypedRow<T, T['table']>
  : PlainRow;

/** A row for `retract()` and `withdraw()`: key, period, and the version column if the target has one. */
export type RetractionRow<T extends TargetConfig> = T['table'] extends PgTable
  ? TypedRetraction<T, T['table']>
  : PlainRow;

type PlainRow = Readonly<Record<string, unknown>>;

type TypedRow<T extends TargetConfig, Table extends PgTable> = Shown<
  OrText<Omit<Insert<Table>, FromProperty<T, Table> | ToProperty<T, Table> | OwnProperty<Table>>> &
    PeriodPart<T, Table>
>;

type TypedRetraction<T extends TargetConfig, Table extends PgTable> = Shown<
  OrText<Stated<Insert<Table>, PropertyOf<Table, T['key'][number]> | VersionProperty<T, Table>>> &
    PeriodPart<T, Table>
>;

type PeriodPart<T extends TargetConfig, Table extends PgTable> = OrText<
  Stated<Insert<Table>, FromProperty<T, Table>>
> &
  (HoldsUntilNext<T> extends true
    ? unknown
    : OrText<{
        readonly [P in ToProperty<T, Table> & keyof Insert<Table>]?: Insert<Table>[P] | null | undefined;
      }>);

type Insert<Table extends PgTable> = Table['$inferInsert'];

type Stated<Row, Name> = { [P in Name & keyof Row]-?: NonNullable<Row[P]> };

/** Dates and texts of times alike. */
type OrText<Row> = { [P in keyof Row]: Date extends Row[P] ? Row[P] | string : Row[P] };

/** The property that the user named: by itself, or by the name of its column. */
type PropertyOf<Table extends PgTable, Name> = {
  [P in keyof Columns<Table>]: P extends Name ? P : ColumnName<Table, P> extends Name ? P : never;
}[keyof Columns<Table>];

type Columns<Table extends PgTable> = Table['_']['columns'];

type ColumnName<Table extends PgTable, P extends keyof Columns<Table>> = Columns<Table>[P]['_']['name'];

/** Columns that emend adds to a target, where the Drizzle table declares them. */
type OwnProperty<Table extends PgTable> = PropertyOf<Table, `_${string}`>;

type FromProperty<T, Table extends PgTable> = T extends { period: readonly [infer From, ...unknown[]] }
  ? PropertyOf<Table, From>
  : never;

type ToProperty<T, Table extends PgTable> = T extends { period: readonly [unknown, infer To] }
  ? PropertyOf<Table, To>
  : T extends { period: readonly [infer From] }
    ? PropertyOf<Table, EndOf<From> | EndOf<ColumnName<Table, PropertyOf<Table, From>>>>
    : never;

type VersionProperty<T, Table extends PgTable> = T extends { version: infer Version }
  ? PropertyOf<Table, Version>
  : never;

type HoldsUntilNext<T> = T extends { mode: 'until_next' } | { period: readonly [unknown] } ? true : false;

/** `valid_to` of `valid_from`, `end` of `start`: the end column where only a start is declared. */
type EndOf<Name> = Name extends `${infer Before}from`
  ? `${Before}to`
  : Name extends `${infer Before}From`
    ? `${Before}To`
    : Name extends `${infer Before}start`
      ? `${Before}end`
      : Name extends `${infer Before}Start`
        ? `${Before}End`
        : never;

type Shown<Row> = { [P in keyof Row]: Row[P] } & {};
