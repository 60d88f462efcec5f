import type { ClientBase } from 'pg';
import { ident } from '../db/identifier.ts';
import type { Column, Target } from '../change/target.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';
import { atMost, note, withExamples } from './findings.ts';
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
  const findings = [
    note(name, 'rows', await one(`select count(*) as figure from ${staged}`)),
    note(
      name,
      'keys',
      await one(`select count(*) as figure from (select distinct ${keyOf(target)} from ${staged}) as k`),
    ),
    await outsideBoundary(client, backfill, target),
    await contradictions(client, backfill, target),
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

/** Rows that do not lie within what the author stated for the target. */
async function outsideBoundary(client: ClientBase, backfill: Backfill, target: Target): Promise<Finding> {
  const { from = null, to = null, where = null } = backfill.boundary[target.name] ?? {};
  const { rows } = await client.query<{ figure: string; first: string | null }>(
    `select count(*)::text as figure, min(s._id)::text as first
     from ${ownObject(target, 'staged')} s
     where s._backfill = $1 and (${outside(target, where)})`,
    [backfill.name, from, to],
  );
  const { figure, first } = rows[0]!;
  return withExamples(
    atMost(target.name, 'outside_boundary', Number(figure), 0),
    first === null ? [] : [`the first is _id ${first} of the log`],
  );
}

/** $2 and $3 are the bounds, or null. */
function outside(target: Target, where: string | null): string {
  const start = startOf(target);
  const conditions = where ? [`not coalesce((${where}\n), false)`] : [];
  if (start) {
    const at = `s.${ident(start.name)}`;
    const isPeriod = target.kind === 'timeline' && target.mode === 'override';
    conditions.push(
      `${at} < $2::text::${start.baseType}`,
      isPeriod
        ? `s.${ident(target.period.to.name)} > $3::text::${start.baseType}`
        : `${at} >= $3::text::${start.baseType}`,
    );
  } else {
    // facts without an event time lie nowhere on an axis
    conditions.push('$2::text is not null or $3::text is not null');
  }
  return conditions.join(' or ');
}

/**
 * Rows that speak of an instant of which another row of their key has spoken, in the order of starts (equal ones, and facts: of
 * the log); the later one in the log would win, if that was meant.
 */
async function contradictions(client: ClientBase, { name }: Backfill, target: Target): Promise<Finding> {
  const { rows } = await client.query<{ figure: string; first: string | null }>(
    `select coalesce(sum(again.rows), 0)::text as figure, min(again._id)::text as first
     from (${spokenAgain(target, `${ownObject(target, 'staged')} s where s._backfill = $1`)}) as again`,
    [name],
  );
  const { figure, first } = rows[0]!;
  const key = target.key.map((column) => column.name).join(', ');
  const what = target.kind === 'facts' ? 'states the same fact' : 'speaks of the same instant';
  return withExamples(
    atMost(target.name, 'contradictions', Number(figure), 0),
    first === null ? [] : [`_id ${first} of the log: another row with the same ${key} ${what}`],
  );
}

/** How many rows, and the number of one of them. Where only equal ones contradict each other nothing has to be sorted. */
function spokenAgain(target: Target, staged: string): string {
  const key = keyOf(target);
  if (target.kind === 'timeline' && target.mode === 'override') {
    const [f, t] = [ident(target.period.from.name), ident(target.period.to.name)];
    return `
      select 1 as rows, ordered._id
      from (
        select s._id, s.${f} < max(s.${t}) over (partition by ${key} order by s.${f}, s._id rows between unbounded preceding and 1 preceding) as is_second
        from ${staged}
      ) as ordered
      where ordered.is_second`;
  }
  const identity = target.kind === 'timeline' ? `${key}, s.${ident(target.period.from.name)}` : key;
  return `
      select count(*) - 1 as rows, max(s._id) as _id
      from ${staged}
      group by ${identity}
      having count(*) > 1`;
}

/**
 * Rows that something newer stands in the way of: a live correction that was written after them keeps its instants. They are looked
 * up in the order of the index.
 */
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
    select count(*) as figure
    from (select s.* from ${staged} order by ${keyOf(target)} offset 0) as s
    where (
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
