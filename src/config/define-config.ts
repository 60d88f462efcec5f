import type { PgTable } from 'drizzle-orm/pg-core';
import { nameTargets } from './target-name.ts';

/**
 * What a user writes in `emend.config.ts`. Left-out connection texts are taken from the environment:
 * `SOURCE_URL`, `REPLICATION_URL`, `STORE_URL`, `REDIS_URL`.
 */
export interface EmendConfig {
  /** The application's Postgres, where corrections are written. */
  readonly source?: {
    readonly url?: string | undefined;
    /** A direct connection for replication, where `url` goes through a pooler. */
    readonly replicationUrl?: string | undefined;
  };
  /** The analytics Postgres, where targets live: another server, another database, or the same one. */
  readonly store?: { readonly url?: string | undefined };
  /** Without `redis`, BullMQ's PostgreSQL backend in the store is used. */
  readonly queue?: {
    readonly redis?: string | undefined;
    /** Replaces the prefix `{emend-<install id>}` of all keys. */
    readonly prefix?: string | undefined;
    /** Bytes that the queue may hold; when it gets full, it is told where rows are, not the rows. Default 268,435,456. */
    readonly maxBytes?: number | undefined;
  };
  readonly targets: Readonly<Record<string, TargetConfig>>;
  readonly capture?: CaptureConfig;
  readonly merge?: MergeConfig;
  readonly log?: LogConfig;
  /** When backfills may be promoted. Left out: at any time. */
  readonly promote?: PromoteTimes;
}

/**
 * When promoting may begin: within one of the windows, and within none of the blackouts. Those of the whole and those of each
 * target of a backfill hold together.
 */
export interface PromoteTimes {
  /** `'UTC'`, or an IANA name such as `'Europe/Vienna'`, in which days and times are meant. A target may leave it to the whole. */
  readonly timeZone?: string;
  readonly windows?: readonly TimeSpan[];
  readonly blackouts?: readonly TimeSpan[];
}

/** A stretch of time that comes back: on each day, or on some. */
export interface TimeSpan {
  /** Days on which it begins: `'mon'` to `'sun'`. */
  readonly days?: readonly ('mon' | 'tue' | 'wed' | 'thu' | 'fri' | 'sat' | 'sun')[];
  /** Dates on which it begins, and no other: `'2026-12-24'`, or `'2026-12-24/2027-01-06'`, both included. */
  readonly dates?: readonly string[];
  /** Dates on which it does not begin: holidays. */
  readonly except?: readonly string[];
  /** `HH:MM`; default 00:00. */
  readonly from?: string;
  /** `HH:MM`, of the next day where it is not later than `from`; default 24:00. */
  readonly to?: string;
}

export interface CaptureConfig {
  /** Rows of one source transaction that still become visible together (law 7). Default 1,000. */
  readonly atomicRows?: number;
  /** The same in bytes of text. Default 1,048,576. */
  readonly atomicBytes?: number;
  /** How long small transactions may wait to be packed into one job, ms. Default 5. */
  readonly lingerMs?: number;
  /** Slots among which the transactions of the source are shared, each with a reader. Default 1. */
  readonly readers?: number;
}

export interface LogConfig {
  /**
   * Days that a row is to stay in its log. Nothing is taken away for it: `emend sources` says which rows are older, and `emend archive`
   * moves them. Default 0: for ever.
   */
  readonly keepDays?: number;
}

export interface MergeConfig {
  /** Jobs that one worker process merges at a time. Default 2. */
  readonly concurrency?: number;
}

/** A table: `'schema.table'` (columns are read from the store's catalogue) or a Drizzle table. */
export type TableRef = string | PgTable;

export interface FactsOptions {
  /** The natural key: columns that name a thing in the world; never a serial id. */
  readonly key: readonly string[];
  readonly eventTime?: string;
  /** The user's own version column: (column, `_id`) then orders corrections. */
  readonly version?: string;
  /** When its backfills may be promoted, beside what holds for all. */
  readonly promote?: PromoteTimes;
  readonly allow?: readonly Allowance[];
}

export interface TimelineOptions {
  readonly key: readonly string[];
  /** `[from, to)`; with `mode: 'until_next'` a correction states only `from`, the end column is kept by emend. */
  readonly period: readonly [from: string] | readonly [from: string, to: string];
  readonly mode?: 'override' | 'until_next';
  readonly version?: string;
  /** How the table writes an end that is open: `'infinity'` (the default), a sentinel such as `'9999-12-31'`, or null. */
  readonly openEnd?: string | null;
  /** The table's end is the last day (or number) that still belongs to the period, instead of the first that does not. */
  readonly closed?: boolean;
  /** Adds an exclusion constraint against overlapping periods (btree_gist); about 4 times the cost of a merge. */
  readonly exclusion?: boolean;
  /** When its backfills may be promoted, beside what holds for all. */
  readonly promote?: PromoteTimes;
  readonly allow?: readonly Allowance[];
}

/** Constraints whose result may depend on the order of delivery; each is refused by `migrate` unless allowed by its name. */
export type Allowance = string;

export interface FactsConfig extends FactsOptions {
  readonly kind: 'facts';
  readonly table: TableRef;
}

export interface TimelineConfig extends TimelineOptions {
  readonly kind: 'timeline';
  readonly table: TableRef;
}

export type TargetConfig = FactsConfig | TimelineConfig;

/** Gives the configuration its type, and each target its name; it is checked when a command loads it. */
export function defineConfig<const C extends EmendConfig>(config: C): C {
  nameTargets(config.targets);
  return config;
}

/** A target of things without a duration, known by natural key. */
export function facts<const T extends TableRef, const O extends FactsOptions>(
  table: T,
  options: O,
): FactsConfig & O & { readonly table: T } {
  return { kind: 'facts', table, ...options };
}

/** A target of things that hold over a period of valid time. */
export function timeline<const T extends TableRef, const O extends TimelineOptions>(
  table: T,
  options: O,
): TimelineConfig & O & { readonly table: T } {
  return { kind: 'timeline', table, ...options };
}
