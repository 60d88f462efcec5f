/** An answer that promoting changes: of a key, over a part of valid time. Null: there is none. */
export interface BackfillChange {
  readonly target: string;
  readonly key: Readonly<Record<string, string | null>>;
  /** Null for facts. */
  readonly validFrom: string | null;
  readonly validTo: string | null;
  readonly old: Readonly<Record<string, string | null>> | null;
  readonly new: Readonly<Record<string, string | null>> | null;
}
