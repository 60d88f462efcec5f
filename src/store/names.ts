import { qualified } from '../db/identifier.ts';
import type { Target } from '../change/target.ts';

/** The table itself, quoted. */
export function targetTable(target: Target): string {
  return qualified(target.schema, target.table);
}

/** emend's own objects beside a target: `emend.<target>_<suffix>`, quoted. */
export function ownObject(target: Target, suffix: OwnSuffix): string {
  return qualified('emend', `${target.name}_${suffix}`);
}

export type OwnSuffix =
  'history' | 'shadow' | 'tombstone' | 'baseline' | 'told' | 'periods' | 'at' | 'as_of' | 'periods_as_of';
