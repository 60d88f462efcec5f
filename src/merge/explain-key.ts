import type { ClientBase } from 'pg';
import { ident, literal } from '../db/identifier.ts';
import { periodColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { fromAxis, toAxis } from '../store/period-form.ts';
import { columnLists } from './column-lists.ts';

export interface KeyQuestion {
  /** The key, as text, in the order of the target's key columns. */
  readonly key: readonly string[];
  /** An instant of valid time: only corrections that cover it. Null: all of the key. */
  readonly validAt: string | null;
  /** As known at this time. Null: as known now. */
  readonly knownAt: string | null;
  /** Corrections to give at most: those that order first. */
  readonly limit: number;
}

export interface Explanation {
  /** The one that orders first comes first. */
  readonly corrections: readonly ExplainedCorrection[];
  /** How many more there are, of lower order. */
  readonly leftOut: number;
}

/**
 * One correction of a key. `state` is its part in the answer:
 * `stands` it makes the answer (or a part of it) · `superseded` it did once · `shadowed` it never did, a higher version was
 * there · `undone` it was taken back.
 */
export interface ExplainedCorrection {
  readonly _id: string;
  readonly state: 'stands' | 'superseded' | 'shadowed' | 'undone';
  readonly _op: string;
  /** Key, period (in the target's form) and values, as the server's text. */
  readonly columns: Readonly<Record<string, string | null>>;
  /** When the store came to know it, and between which times it made the answer. */
  readonly told_at: string;
  readonly believed_from: string | null;
  readonly believed_to: string | null;
  readonly _recorded_at: string | null;
  readonly _actor: string | null;
  readonly _reason: string | null;
  readonly _backfill: string | null;
  readonly undone_reason: string | null;
}

/** The corrections of a key, with who wrote each, when and why. From the store alone. */
export async function explainKey(
  client: ClientBase,
  target: Target,
  { key, validAt, knownAt, limit }: KeyQuestion,
): Promise<Explanation> {
  const { rows } = await client.query<Record<string, string | null>>(explainSql(target), [
    knownAt,
    ...key,
    ...(target.kind === 'timeline' ? [validAt] : []),
    limit,
  ]);
  const names = [...target.key, ...periodColumns(target), ...target.values].map((column) => column.name);
  const corrections = rows.map((row) => {
    const { _id, _op, _recorded_at, _actor, _reason, _backfill } = row;
    return {
      _id,
      state: row['_state'],
      _op,
      columns: Object.fromEntries(names.map((name) => [name, row[name] ?? null])),
      told_at: row['_told_at'],
      believed_from: row['_believed_from'],
      believed_to: row['_believed_to'],
      _recorded_at,
      _actor,
      _reason,
      _backfill,
      undone_reason: row['_undone_reason'],
    } as ExplainedCorrection;
  });
  return { corrections, leftOut: Number(rows[0]?.['_count'] ?? 0) - rows.length };
}

/**
 * Parameters: the time of knowing or null, the key, for a timeline the instant or null, and the limit. What is not a column of the
 * user's has a name with `_` before it, which none of his has.
 */
function explainSql(target: Target): string {
  const columns = columnLists(target);
  const isTimeline = target.kind === 'timeline';
  const limit = `$${target.key.length + (isTimeline ? 3 : 2)}`;
  const period = periodColumns(target).map(({ name }) => ident(name));
  const covers = isTimeline
    ? `($${target.key.length + 2}::${target.period.from.type} is null or (p.${period[0]} <= $${target.key.length + 2}::${target.period.from.type} and $${target.key.length + 2}::${target.period.from.type} < p.${period[1]}))`
    : 'true';
  const whole = isTimeline
    ? `, min(p.${period[0]}) over correction as ${period[0]}, ${fromAxis(target.period, `(max(p.${period[1]}) over correction)`)} as ${period[1]}`
    : '';
  return `
    with
    parts as (
      ${[
        part(target, targetTable(target), `'upsert'`, `s._known_from, 'infinity'::timestamptz`, true),
        part(target, ownObject(target, 'history'), `'upsert'`, 's._known_from, s._known_to', true),
        part(target, ownObject(target, 'tombstone'), 's._op', 's._known_from, s._known_to', true),
        // never believed: what it did not win when it was told
        part(target, ownObject(target, 'shadow'), 's._op', 's._known_from, null::timestamptz', false),
      ].join('\n      union all\n      ')}
    ),
    known as (select * from parts where _known_from <= coalesce($1::timestamptz, 'infinity')),
    corrections as (
      select distinct on (p._version)
        p._version, p._op, ${columns.key('p')}${columns.values('p')}, p._backfill${whole},
        bool_or(${covers}) over correction as _covers,
        min(p._known_from) over correction as _first_known,
        min(p._known_from) filter (where p._believed and ${covers}) over correction as _believed_from,
        max(p._known_to) filter (where p._believed and ${covers}) over correction as _believed_to
      from known p
      window correction as (partition by p._version)
      order by p._version
    )
    select c._version as _id, c._op, ${columns.key('c')}${period.map((name) => `, c.${name}`).join('')}${columns.values('c')},
      case
        when c._believed_to > coalesce($1::timestamptz, now()) then 'stands'
        when u._id is not null then 'undone'
        when c._believed_from is null then 'shadowed'
        else 'superseded'
      end as _state,
      coalesce(l.told_at, c._first_known) as _told_at, c._believed_from, nullif(c._believed_to, 'infinity') as _believed_to,
      l._recorded_at, l._actor, coalesce(l._reason, case when c._version < 0 then 'adopted with the table' end) as _reason,
      c._backfill, u.reason as _undone_reason, count(*) over () as _count
    from corrections c
    left join lateral emend.ledger_at(c._version) l on true
    left join emend.undone u on u._id = c._version and u.target = ${literal(target.name)} and u.told_at <= coalesce($1::timestamptz, 'infinity')
    where c._covers
    order by ${columns.newestFirst('c')}
    limit ${limit}::bigint`;
}

function part(target: Target, table: string, op: string, known: string, believed: boolean): string {
  const columns = columnLists(target);
  const isTombstone = table === ownObject(target, 'tombstone');
  const period = periodColumns(target).map(({ name }) => `s.${ident(name)}`);
  if (target.kind === 'timeline' && table === targetTable(target)) {
    period[1] = `${toAxis(target.period, period[1]!)} as ${ident(target.period.to.name)}`;
  }
  const values = isTombstone ? columns.tombstoneValues('s') : columns.values('s');
  const isKey = target.key.map(
    ({ name, baseType, equals }, index) => `s.${ident(name)} ${equals} $${index + 2}::${baseType}`,
  );
  return `select ${op} as _op, ${[columns.key('s'), ...period].join(', ')}${values}, s._version, s._backfill, ${believed} as _believed,
        ${known.replace(', ', ' as _known_from, ')} as _known_to
      from ${table} s
      where ${isKey.join(' and ')}`;
}
