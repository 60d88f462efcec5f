import type { ClientBase } from 'pg';
import { ident } from '../db/identifier.ts';
import type { Column, Target } from '../change/target.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';
import { atMost, note } from './findings.ts';
import type { Finding } from './findings.ts';
import type { Backfill } from './state.ts';

/** Of these rows a share may carry the time at which they were loaded; more looks like processing time taken for event time. */
const loadTimeShare = 0.5;

/** What the staged rows of one target say by themselves, and against what stands. */
export async function checkStaged(
  client: ClientBase,
  backfill: Backfill,
  target: Target,
): Promise<Finding[]> {
  const one = async (sql: string, values: readonly (string | null)[] = []): Promise<number> => {
    const { rows } = await client.query<{ figure: string | null }>(sql, [backfill.name, ...values]);
    return Number(rows[0]?.figure ?? 0);
  };
  const { name } = target;
  const staged = `${ownObject(target, 'staged')} s where s._backfill = $1`;
  const { from = null, to = null, where = null } = backfill.boundary[name] ?? {};
  const findings = [
    note(name, 'rows', await one(`select count(*) as figure from ${staged}`)),
    note(
      name,
      'keys',
      await one(`select count(*) as figure from (select distinct ${keyOf(target)} from ${staged}) as k`),
    ),
    atMost(name, 'outside_boundary', await one(outsideBoundary(target, where, staged), [from, to]), 0),
    atMost(name, 'contradictions', await one(contradictions(target, staged)), 0),
    note(name, 'superseded_by_newer', await one(supersededByNewer(target, staged))),
  ];
  const start = startOf(target);
  if (start && /^(timestamp|date)/.test(start.baseType)) {
    const bound = Number(thresholdOf(backfill, 'valid_at_load_time') ?? loadTimeShare);
    const share = await one(atLoadTime(start, staged), [backfill.openedAt]);
    findings.push(atMost(name, 'valid_at_load_time', share, bound));
  }
  return findings;
}

export function thresholdOf({ checks }: Backfill, name: string): number | undefined {
  const thresholds = checks['thresholds'] as Readonly<Record<string, number>> | undefined;
  return thresholds?.[name];
}

function keyOf(target: Target): string {
  return target.key.map((column) => `s.${ident(column.name)}`).join(', ');
}

/** Where a row lies on the axis of valid time: its start, or the event time of facts. */
export function startOf(target: Target): Column | null {
  return target.kind === 'timeline' ? target.period.from : target.eventTime;
}

/** $2 and $3 are the bounds, or null. */
function outsideBoundary(target: Target, where: string | null, staged: string): string {
  const start = startOf(target);
  const outside = where ? [`not coalesce((${where}\n), false)`] : [];
  if (start) {
    const at = `s.${ident(start.name)}`;
    const isPeriod = target.kind === 'timeline' && target.mode === 'override';
    outside.push(
      `${at} < $2::text::${start.baseType}`,
      isPeriod
        ? `s.${ident(target.period.to.name)} > $3::text::${start.baseType}`
        : `${at} >= $3::text::${start.baseType}`,
    );
  } else {
    // facts without an event time lie nowhere on an axis
    outside.push('$2::text is not null or $3::text is not null');
  }
  return `select count(*) as figure from ${staged} and (${outside.join(' or ')})`;
}

/** Rows of one key that speak of the same instant twice; of them the later one would win, if that was meant. */
function contradictions(target: Target, staged: string): string {
  const key = keyOf(target);
  if (target.kind === 'timeline' && target.mode === 'override') {
    const [f, t] = [ident(target.period.from.name), ident(target.period.to.name)];
    return `
      select count(*) as figure
      from (
        select s.${f} < max(s.${t}) over (partition by ${key} order by s.${f}, s._id rows between unbounded preceding and 1 preceding) as is_second
        from ${staged}
      ) as ordered
      where is_second`;
  }
  const identity = target.kind === 'timeline' ? `${key}, s.${ident(target.period.from.name)}` : key;
  return `select (select count(*) from ${staged}) - (select count(*) from (select distinct ${identity} from ${staged}) as d) as figure`;
}

/** Rows that something newer stands in the way of: a live correction that was written after them keeps its instants. */
function supersededByNewer(target: Target, staged: string): string {
  const newer = (
    table: string,
    end: (alias: string) => string,
    standing: (alias: string) => string,
  ): string => `
    exists (
      select from ${table} p
      where ${sameKey(target.key, 'p', 's')} and p._version > s._id and ${standing('p')}${meets(target, table, end, standing)}
    )`;
  const to = target.kind === 'timeline' ? ident(target.period.to.name) : '';
  const inTarget = (alias: string) =>
    target.kind === 'timeline' ? toAxis(target.period, `${alias}.${to}`) : '';
  return `
    select count(*) as figure from ${staged} and (
      ${newer(targetTable(target), inTarget, () => 'true')}
      or ${newer(
        ownObject(target, 'tombstone'),
        (alias) => `${alias}.${to}`,
        (alias) => `${alias}._known_to = 'infinity'`,
      )})`;
}

/**
 * Where `p` of a table speaks of an instant of `s`. Rows of a key do not overlap, so the first that can is the last to begin at or
 * before it: earlier ones of the key are not read.
 */
function meets(
  target: Target,
  table: string,
  end: (alias: string) => string,
  standing: (alias: string) => string,
): string {
  if (target.kind === 'facts') return '';
  const [f, t] = [ident(target.period.from.name), ident(target.period.to.name)];
  if (target.mode !== 'override') return ` and p.${f} = s.${f}`;
  return `
        and p.${f} < s.${t} and ${end('p')} > s.${f}
        and p.${f} >= coalesce(
          (select max(b.${f}) from ${table} b where ${sameKey(target.key, 'b', 's')} and b.${f} <= s.${f} and ${standing('b')}),
          s.${f})`;
}

function atLoadTime(start: Column, staged: string): string {
  const at = `s.${ident(start.name)}`;
  const type = start.baseType;
  return `
    select round(count(*) filter (
        where ${at} >= ($2::timestamptz - interval '1 hour')::${type} and ${at} <= clock_timestamp()::${type}
      )::numeric / greatest(count(*), 1), 3) as figure
    from ${staged}`;
}
