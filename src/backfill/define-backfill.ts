import type { Boundary } from '../log/backfill.ts';

/**
 * Where rows come from.
 *
 * - `sql`: a select whose columns are named as those of the log. It runs in the source, or in the store.
 * - `file`: NDJSON or CSV; `.gz` is unpacked. The path is relative to the backfill file.
 * - a function, such as `async function* () { … }`, or one that returns a list: rows as `correct()` takes them. Run again, it
 *   has to give the same ones.
 */
export type RowSource =
  | { readonly sql: string; readonly on?: 'source' | 'store' }
  | {
      readonly file: string;
      readonly format?: 'csv' | 'ndjson';
      /** Fields that are not for the log. */
      readonly ignore?: readonly string[];
      /** A start that is null means an open one; otherwise such a row is refused. */
      readonly openStart?: boolean;
      /** A file that gets bad rows with their reasons; without it the first bad row ends the load. */
      readonly skipBad?: string;
    }
  | (() => GivenRows | Promise<GivenRows>);

type GivenRows = AsyncIterable<object> | Iterable<object>;

/** An answer that was worked out by hand: as a line of a file of samples has it, or with key and values apart. */
export type StatedSample = SampleRow | SampleParts;

/**
 * The key's columns, `valid_at` for timelines, and the columns to compare: `{ route: 'AMS-JFK', valid_at: '2026-09-15', price: 120 }`;
 * `target` where the backfill has several, and `_op: 'retract'` where nothing may be there.
 */
export type SampleRow = Readonly<Record<string, string | number | boolean | null>>;

export interface SampleParts {
  /** May be left out where the backfill has one target. */
  readonly target?: string;
  readonly key: Readonly<Record<string, string | number | boolean>>;
  /** The instant of valid time; of timelines only. */
  readonly validAt?: string;
  /** Columns that are left out are not looked at. Null: there is no answer. */
  readonly values: Readonly<Record<string, string | number | boolean | null>> | null;
}

/** What a file such as `backfills/2026-11-29-reprice.ts` exports by default; the file's name is the backfill's. */
export interface BackfillDefinition {
  /** Their names in the configuration. */
  readonly targets: readonly string[];
  /** By target, what its rows stay within. */
  readonly boundary?: Readonly<Record<string, Boundary>>;
  /** Why; kept for ever. */
  readonly reason: string;
  /** What finds the program again that computed the rows; default: the git commit of the file's folder. */
  readonly logicVersion?: string;
  /** Where the raw input comes from: in words, and the files that it is, whose checksums are kept. */
  readonly origin?: string | { readonly input?: string; readonly files?: readonly string[] };
  readonly rows: RowSource | readonly { readonly target: string; readonly rows: RowSource }[];
  readonly checks?: {
    /** Name -> a query that must return no row, on the tables as they would be. It runs in the store; names have their schema. */
    readonly sql?: Readonly<Record<string, string>>;
    /** Answers that were worked out by hand, or a file of them. */
    readonly samples?: string | readonly StatedSample[];
    readonly thresholds?: {
      readonly valid_at_load_time?: number;
      readonly null_share?: number;
      readonly rows_against_today?: number;
      readonly keys_against_today?: number;
      readonly gaps_opened?: number;
    };
  };
  /** Checks that may fail, each with the reason why. */
  readonly accept?: Readonly<Record<string, string>>;
}

/** Gives a backfill file its type; it is checked when it is run. */
export function defineBackfill(definition: BackfillDefinition): BackfillDefinition {
  return definition;
}
