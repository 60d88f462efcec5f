/**
 * emend's own objects beside a target are called `emend.<target>_<suffix>`. The names of a target decide which other names
 * are taken, so they are checked with the configuration, before anything is made.
 */
const ofEvery = [
  'history',
  'shadow',
  'tombstone',
  'baseline',
  'staged',
  'told',
  'as_of',
  'rebuilt',
  'rebuilt_key',
] as const;
const ofTimelines = ['at', 'periods', 'periods_as_of'] as const;

export type OwnSuffix = (typeof ofEvery)[number] | (typeof ofTimelines)[number];

/** The names that a target takes in schema emend. */
export function ownNames(name: string, kind: 'facts' | 'timeline'): string[] {
  const suffixes = kind === 'timeline' ? [...ofEvery, ...ofTimelines] : ofEvery;
  return suffixes.map((suffix) => `${name}_${suffix}`);
}
