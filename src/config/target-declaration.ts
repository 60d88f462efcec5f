/**
 * A target of the configuration in plain form: names only, nothing read from a server yet.
 * `check-config.ts` makes it from what the user wrote.
 */
export interface TargetDeclaration {
  readonly name: string;
  readonly kind: 'facts' | 'timeline';
  readonly schema: string;
  readonly table: string;
  readonly key: readonly string[];
  /** Timelines only. */
  readonly period: PeriodDeclaration | null;
  readonly eventTime: string | null;
  readonly version: string | null;
  readonly exclusion: boolean;
  /** Names of constraints that may let the order of delivery decide. */
  readonly allow: readonly string[];
}

export interface PeriodDeclaration {
  readonly from: string;
  readonly to: string;
  readonly mode: 'override' | 'until_next';
  /** How the table writes an end that is open; undefined: as the axis does (`infinity`, or the greatest integer). */
  readonly openEnd?: string | null | undefined;
  readonly closed?: boolean | undefined;
}
