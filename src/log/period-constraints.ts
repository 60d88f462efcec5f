import type { ClientBase } from 'pg';
import { ident, literal } from '../db/identifier.ts';
import type { Period, TimelineTarget } from '../change/target.ts';

/** A condition, and its name, which is what the writer of a refused row reads. It may still be too long for Postgres. */
export interface PeriodRule {
  readonly name: string;
  readonly condition: string;
}

/** What a table writes where a period is open, when that is a value like any other: `9999-12-31`, or -1. */
interface Sentinel {
  readonly text: string;
  readonly sql: string;
  /** Whether it lies behind the values, as `9999-12-31` does, or before them. */
  readonly isLate: boolean;
}

/** The axes without an infinity end with their greatest value. */
const axisEnds: Readonly<Partial<Record<string, string>>> = {
  int4range: '2147483647',
  int8range: '9223372036854775807',
};

/**
 * What the log asks of a period: that it is not empty, and that its ends can be written in the table's form and mean the same.
 * Where a correction ends, what it covers begins again, and so the other way round: a start or an end that looks like the open
 * end of another row would give an instant two answers.
 */
export async function periodRules(source: ClientBase, target: TimelineTarget): Promise<PeriodRule[]> {
  const sentinel = await readSentinel(source, target.period);
  const rules = [periodInOrder(target, sentinel), ...startBesideSentinel(target, sentinel)];
  return target.mode === 'until_next' ? rules : [...rules, ...endIsNoOpenEnd(target.period, sentinel)];
}

async function readSentinel(source: ClientBase, period: Period): Promise<Sentinel | null> {
  const { openEnd, rangeType, from } = period;
  if (openEnd === null || openEnd === axisEndText(period)) return null;
  const origin = rangeType.startsWith('int') ? '0' : 'epoch';
  const { rows } = await source.query<{ late: string }>(
    `select ($1::${from.type} > $2::${from.type})::text as late`,
    [openEnd, origin],
  );
  return { text: openEnd, sql: `${literal(openEnd)}::${from.type}`, isLate: rows[0]?.late === 'true' };
}

/** An end that is null is open. A start without end has to be before the end of the axis. */
function periodInOrder({ mode, period }: TimelineTarget, sentinel: Sentinel | null): PeriodRule {
  const from = ident(period.from.name);
  if (mode === 'until_next') {
    return {
      name: `${period.from.name} must be before the end of time`,
      condition: `${from} < ${axisEnd(period)}`,
    };
  }
  const to = ident(period.to.name);
  const stated = sentinel ? `nullif(${to}, ${sentinel.sql})` : to;
  const end = `coalesce(${stated}, ${axisEnd(period)})`;
  return period.closed
    ? {
        name: `${period.from.name} must not be after ${period.to.name}`,
        condition: `${from} <= ${end} and ${from} < ${axisEnd(period)}`,
      }
    : {
        name: `${period.from.name} must be before ${period.to.name}`,
        condition: `${from} < ${end}`,
      };
}

function startBesideSentinel({ period: { from } }: TimelineTarget, sentinel: Sentinel | null): PeriodRule[] {
  if (!sentinel) return [];
  const [side, is] = sentinel.isLate ? ['before', '<'] : ['after', '>'];
  return [
    {
      name: `${from.name} must be ${side} the open end ${sentinel.text}`,
      condition: `${ident(from.name)} ${is} ${sentinel.sql}`,
    },
  ];
}

/** An end that is closed counts one step more: what follows the last day but one would begin at the open end. */
function endIsNoOpenEnd(period: Period, sentinel: Sentinel | null): PeriodRule[] {
  const to = ident(period.to.name);
  const step = period.closed ? ' - 1' : '';
  const isAxisEnd = `${to} is null or ${to} = ${axisEnd(period)}`;
  if (sentinel?.isLate) {
    return [
      {
        name: `${period.to.name} must be the open end ${sentinel.text}, or end before it`,
        condition: `${isAxisEnd} or ${to} = ${sentinel.sql} or ${to} < ${sentinel.sql}${step}`,
      },
    ];
  }
  if (!period.closed || !period.rangeType.startsWith('int')) return [];
  return [
    {
      name: `${period.to.name} must be before ${BigInt(axisEndText(period)) - 1n}, or open`,
      condition: `${isAxisEnd} or ${to} < ${axisEnd(period)}${step}`,
    },
  ];
}

function axisEnd(period: Period): string {
  return `${literal(axisEndText(period))}::${period.from.type}`;
}

function axisEndText({ rangeType }: Period): string {
  return axisEnds[rangeType] ?? 'infinity';
}
