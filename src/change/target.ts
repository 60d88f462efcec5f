/**
 * A target as every stage sees it: the user's declaration joined with what the store's catalogue says.
 * `store/resolve-targets.ts` builds it; nothing else does.
 */
export interface Column {
  readonly name: string;
  /** As `format_type(oid, typmod)` prints it with an empty search_path: `numeric(10,2)`, `public.mood`. */
  readonly type: string;
  /** The same without a length or precision, and of a domain what is beneath it, as a cast target: `numeric`, `"bit"`, `bpchar`. A cast to `varchar(3)` cuts silently, and a cast of null to a domain may be refused; an assignment does neither. */
  readonly baseType: string;
  /**
   * The type's own equality, as SQL: `operator(public.=)` for citext in `public`. Sessions run with an empty search_path,
   * where a bare `=` would silently compare citext as text. Null: the type has none (json, xml), compare as text.
   */
  readonly equals: string | null;
  readonly nullable: boolean;
  /** The column's default expression, or null. */
  readonly defaultSql: string | null;
}

/** The range type of a valid-time axis. */
export type RangeType = 'tstzrange' | 'tsrange' | 'daterange' | 'int4range' | 'int8range';

export interface Period {
  readonly from: Column;
  readonly to: Column;
  readonly rangeType: RangeType;
  /** How the table writes an end that is open: `infinity`, a sentinel such as `9999-12-31`, or null for NULL. */
  readonly openEnd: string | null;
  /** Whether the table's end is the last instant that still belongs to the period (date and integer axes only). */
  readonly closed: boolean;
}

interface TargetBase {
  /** The name in the configuration: `[a-z][a-z0-9_]{0,46}`; names the log table and emend's own tables. */
  readonly name: string;
  readonly schema: string;
  readonly table: string;
  readonly isPartitioned: boolean;
  readonly key: readonly Column[];
  /** All other columns of the user, in the table's order. Contains the version column, if there is one. */
  readonly values: readonly Column[];
  /** The user's own version column: then (column, `_id`) orders corrections; without it `_id` does. */
  readonly version: Column | null;
  /** CHECK constraints of the table that the log mirrors, by name. */
  readonly checks: readonly { readonly name: string; readonly sql: string }[];
}

/** Something without a duration, known by its natural key: an order, a payment, a reading. */
export interface FactsTarget extends TargetBase {
  readonly kind: 'facts';
  /** A key or value column that holds the event time, if declared. */
  readonly eventTime: Column | null;
}

/** Something that holds over a period of valid time: a price, an address. */
export interface TimelineTarget extends TargetBase {
  readonly kind: 'timeline';
  /**
   * `override`: a correction states its whole period.
   * `until_next`: a correction states a start, and holds until the next start that has a winner.
   */
  readonly mode: 'override' | 'until_next';
  readonly period: Period;
  /** Whether the table also carries an exclusion constraint against overlapping periods. */
  readonly exclusion: boolean;
}

export type Target = FactsTarget | TimelineTarget;

/** The user's columns in one fixed order: key, period, values. */
export function userColumns(target: Target): Column[] {
  return [...target.key, ...periodColumns(target), ...target.values];
}

export function periodColumns(target: Target): Column[] {
  return target.kind === 'timeline' ? [target.period.from, target.period.to] : [];
}

/** The columns of a log row that the writer states: in `until_next` mode a correction has no end of its own. */
export function statedColumns(target: Target): Column[] {
  const stated = userColumns(target);
  if (target.kind === 'timeline' && target.mode === 'until_next') {
    return stated.filter((column) => column !== target.period.to);
  }
  return stated;
}
