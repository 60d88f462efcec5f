import type { Target } from '../change/target.ts';
import { openEnd } from '../store/period-form.ts';

/**
 * What the store must hold of a set of corrections, as common table expressions. It reads `claim` (key_no, key, id, op, f, t,
 * vals, told_at, undone_at, rank: 1 is the winner of all) and gives `expected`: each row of target, tombstones, history and
 * shadows, on both axes.
 *
 * Written another way than the merge, so that one mistake is not made twice: valid time is cut into elementary segments, and
 * within each the corrections contest transaction time.
 */
export function expectedRows(target: Target): string {
  return `
    ${contests(target)},
    -- law 1 over time: a correction has its segment from when it is told until one that orders before it is told, or it is
    -- taken back; while one that orders before it was there, until that was taken back, it has not
    weighed as (
      select c.*,
        min(c.told_at) filter (where c.undone_at = 'infinity') over higher as beaten_at,
        range_agg(tstzrange(c.told_at, c.undone_at)) filter (where c.undone_at < 'infinity') over higher as beaten_meanwhile
      from contest c
      window higher as (
        partition by c.key_no, c.seg_from order by c.rank
        rows between unbounded preceding and 1 preceding
      )
    ),
    held as materialized (
      select w.key_no, w.id, w.op, w.seg_from, w.seg_to, lower(span) as k_from, upper(span) as k_to
      from weighed w
      cross join lateral unnest(
        case
          when w.told_at < least(w.undone_at, w.beaten_at) then
            tstzmultirange(tstzrange(w.told_at, least(w.undone_at, w.beaten_at))) - coalesce(w.beaten_meanwhile, '{}'::tstzmultirange)
          else '{}'::tstzmultirange
        end) as span
    ),
    -- law 4: what it did not have when it was told is a shadow
    missed as (
      select c.id, c.seg_from, c.seg_to, c.told_at
      from contest c
      where not exists (select from held h where h.id = c.id and h.seg_from = c.seg_from and h.k_from = c.told_at)
    ),
    ${pieces(target)},
    -- a row stands as long as its piece stays the same
    joined as (
      select p.*, case when lag(p.k_to) over (partition by p.id, p.f, p.t order by p.k_from) = p.k_from then 0 else 1 end as begins
      from piece p
    ),
    grouped as (
      select j.*, sum(j.begins) over (partition by j.id, j.f, j.t order by j.k_from rows unbounded preceding) as row_no from joined j
    ),
    lived as (
      select id, f, t, min(k_from) as known_from, max(k_to) as known_to, false as in_shadow
      from grouped
      group by id, f, t, row_no
      union all
      select s.id, s.f, s.t, s.known_from, null, true from shadow s
    ),
    expected as (
      select c.key_no, c.key, l.id, c.op, l.f, l.t, c.vals, l.known_from, l.known_to,
        case
          when l.in_shadow then 'shadow'
          when c.op <> 'upsert' then 'tombstone'
          when l.known_to = 'infinity' then 'target'
          else 'history'
        end as place
      from lived l
      join claim c on c.id = l.id
    )`;
}

/** Who contests what: facts their key, starts their start, periods each elementary segment that they cover. */
function contests(target: Target): string {
  if (target.kind === 'facts' || target.mode === 'until_next') {
    const end = target.kind === 'facts' ? 'c.t' : 'c.f';
    return `contest as materialized (select c.*, c.f as seg_from, ${end} as seg_to from claim c)`;
  }
  return `
    bound as (select key_no, f as at from claim union select key_no, t from claim),
    segment as materialized (
      select key_no, at as seg_from, lead(at) over (partition by key_no order by at) as seg_to from bound
    ),
    contest as materialized (
      select c.*, s.seg_from, s.seg_to
      from claim c
      join segment s on s.key_no = c.key_no and s.seg_from >= c.f and s.seg_to <= c.t
    )`;
}

/** `piece`: what a correction had, as rows with their periods, at each stretch of transaction time; `shadow`: what it missed. */
function pieces(target: Target): string {
  if (target.kind === 'facts') return `${asTheyAre('piece', 'held')}, ${asTheyAre('shadow', 'missed')}`;
  if (target.mode === 'until_next') {
    return `
    ${moments('key_no')},
    -- a start holds until the next one; a withdrawal is none
    piece as (
      select h.id, h.seg_from as f, m.k_from, m.k_to,
        case
          when h.op = 'withdraw' then h.seg_from
          else coalesce(
            lead(h.seg_from) over (partition by h.key_no, m.k_from, h.op = 'withdraw' order by h.seg_from),
            ${openEnd(target.period)})
        end as t
      from moment m
      join held h on h.key_no = m.key_no and h.k_from <= m.k_from and m.k_to <= h.k_to
    ),
    ${asTheyAre('shadow', 'missed')}`;
  }
  return `
    ${moments('id')},
    at_moment as (
      select h.id, h.seg_from, h.seg_to, m.k_from, m.k_to
      from moment m
      join held h on h.id = m.id and h.k_from <= m.k_from and m.k_to <= h.k_to
    ),
    -- law 3: touching segments of one correction are one piece
    ${islands('piece', 'at_moment', 'k_from, k_to')},
    ${islands('shadow', 'missed', 'told_at', 'told_at as known_from')}`;
}

function asTheyAre(name: 'piece' | 'shadow', relation: 'held' | 'missed'): string {
  const known = name === 'piece' ? 'k_from, k_to' : 'told_at as known_from';
  return `${name} as (select id, seg_from as f, seg_to as t, ${known} from ${relation})`;
}

/** The stretches of transaction time within which nothing changes for a correction, or for its key. */
function moments(of: 'id' | 'key_no'): string {
  return `
    turn as (select ${of}, k_from as k from held union select ${of}, k_to from held),
    moment as materialized (
      select ${of}, k as k_from, lead(k) over (partition by ${of} order by k) as k_to from turn
    )`;
}

function islands(name: string, relation: string, known: string, as = known): string {
  return `
    ${name}_part as (
      select r.*, case when lag(r.seg_to) over (partition by r.id, ${known.split(', ')[0]} order by r.seg_from) = r.seg_from then 0 else 1 end as begins
      from ${relation} r
    ),
    ${name}_numbered as (
      select r.*, sum(r.begins) over (partition by r.id, ${known.split(', ')[0]} order by r.seg_from rows unbounded preceding) as island
      from ${name}_part r
    ),
    ${name} as (
      select id, min(seg_from) as f, max(seg_to) as t, ${as}
      from ${name}_numbered
      group by id, ${known}, island
    )`;
}
