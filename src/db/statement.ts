/** One statement of a migration, as `migrate` runs it and `migrate --print` shows it. */
export interface Statement {
  /** What it is for, in a few words: `value log of prices`. */
  readonly purpose: string;
  readonly sql: string;
}
