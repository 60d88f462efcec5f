import { ident } from '../db/identifier.ts';
import type { TimelineTarget } from '../change/target.ts';
import { ownObject } from '../store/names.ts';
import { columnLists } from './column-lists.ts';
import { recordMerged } from './record-merged.ts';
import { allReplaced, replaceStanding } from './replace-standing.ts';

/**
 * What a timeline merge writes, whatever decided it: `superseded` and `pieces` as `replaceStanding` reads them, and
 * `shadowed`, the parts that fresh claims did not win, with their period as `_part_from, _part_to`.
 */
export function applyTimeline(target: TimelineTarget): string {
  const columns = columnLists(target);
  const [f, t] = [ident(target.period.from.name), ident(target.period.to.name)];
  return `
    ${replaceStanding(target)},
    -- law 4: what a correction did not win when it was told is kept too
    shadows as (
      insert into ${ownObject(target, 'shadow')} (${columns.key()}, ${f}, ${t}${columns.values()}, _op, _version, _known_from, _backfill)
      select ${columns.key('s')}, s._part_from, s._part_to${columns.values('s')}, s._op, s._version, (select k from told), s._backfill
      from shadowed s
    ),
    ${recordMerged(target)}
    select count(*) as rows from merged where ${allReplaced(target)}`;
}
