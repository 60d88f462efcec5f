import { literal } from '../db/identifier.ts';
import type { Period } from '../change/target.ts';

/**
 * A table may write its ends in a form of its own: null or `9999-12-31` for an open end, or the last day that still belongs
 * to the period. The target, the log and the functions keep that form; emend's own tables, and everything that compares
 * ends, use the axis form: half-open, `infinity` for no end. These two expressions are the only way across.
 */
export function toAxis(period: Period, end: string): string {
  const stepped = period.closed ? `${end} + 1` : end;
  if (!period.closed && period.openEnd === axisOpenEnd(period)) return end;
  const open = openEnd(period);
  const isOpen =
    period.openEnd === null ? `${end} is null` : `${end} = ${literal(period.openEnd)}::${period.to.baseType}`;
  return `case when ${isOpen} or ${end} = ${open} then ${open} else ${stepped} end`;
}

/** The inverse of `toAxis`, for what is written to the target. */
export function fromAxis(period: Period, end: string): string {
  const stepped = period.closed ? `${end} - 1` : end;
  if (!period.closed && period.openEnd === axisOpenEnd(period)) return end;
  const written =
    period.openEnd === null
      ? `null::${period.to.baseType}`
      : `${literal(period.openEnd)}::${period.to.baseType}`;
  return `case when ${end} = ${openEnd(period)} then ${written} else ${stepped} end`;
}

/** The end of what has no end, typed; the integer axes have no infinity, so there it is the greatest value. */
export function openEnd(period: Period): string {
  return `${literal(axisOpenEnd(period))}::${period.to.baseType}`;
}

export function axisOpenEnd({ rangeType }: Pick<Period, 'rangeType'>): string {
  if (rangeType === 'int4range') return '2147483647';
  if (rangeType === 'int8range') return '9223372036854775807';
  return 'infinity';
}
