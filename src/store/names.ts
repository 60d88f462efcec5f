import { qualified } from '../db/identifier.ts';
import type { Target } from '../change/target.ts';
import type { OwnSuffix } from '../config/own-names.ts';

export type { OwnSuffix } from '../config/own-names.ts';

/** The table itself, quoted. */
export function targetTable(target: Target): string {
  return qualified(target.schema, target.table);
}

/** emend's own objects beside a target: `emend.<target>_<suffix>`, quoted. */
export function ownObject(target: Target, suffix: OwnSuffix): string {
  return qualified('emend', `${target.name}_${suffix}`);
}
