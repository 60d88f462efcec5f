import type { ClientBase } from 'pg';
import { ident } from '../db/identifier.ts';
import type { Target } from '../change/target.ts';
import { takeK } from '../store/clock.ts';
import { sameKey } from '../store/equality.ts';
import { columnLists } from './column-lists.ts';
import { foldFreed } from './fold-freed.ts';
import { foldAsked, rowsOf } from './fold.ts';
import { allReplaced, replaceStanding } from './replace-standing.ts';

/** Which standing rows `s` are taken back, as a condition, and its parameters from $2 on; parameter 1 of all is K. */
export interface TakenBack {
  readonly rows: string;
  readonly values: readonly string[];
}

/**
 * Brings the store to what the visible corrections say once some are taken back, and returns K. Rows that stay as they are are not
 * touched. What is not standing decides nothing, so it is enough to name the standing rows. Their keys must have been taken
 * (`takeKeys`, or a fence), and their corrections are put into `emend.undone` in this transaction, by `hide`, which is given K.
 */
export async function refold(
  client: ClientBase,
  target: Target,
  taken: TakenBack,
  hide: (k: string) => Promise<void>,
): Promise<string> {
  const k = await takeK(client);
  await hide(k);
  await refoldAt(client, target, taken, k);
  return k;
}

export async function refoldAt(
  client: ClientBase,
  target: Target,
  { rows, values }: TakenBack,
  k: string,
): Promise<void> {
  await client.query(refoldSql(target, rows), [k, ...values]);
}

function refoldSql(target: Target, rows: string): string {
  const fold =
    target.kind === 'timeline' && target.mode === 'override' ? foldFreed(target) : refoldKeys(target);
  return `
    with
    told as materialized (select $1::timestamptz as k),
    freed as materialized (${rowsOf(target, 'target')}
      where ${rows}
      union all ${rowsOf(target, 'tombstone')}
      where ${rows} and s._known_to = 'infinity'
    ),
    ${fold},
    ${replaceStanding(target)},
    -- the floor of the next K
    counted as (insert into emend.merge (told_at, target, rows) select told.k, '${target.name}', 0 from told)
    select count(*) from pieces where ${allReplaced(target)}`;
}

/** The difference between what stands of the freed keys and what their visible corrections say. */
function refoldKeys(target: Target): string {
  return `
    asked as materialized (select distinct ${columnLists(target).key()} from freed),
    ${foldAsked(target)},
    superseded as materialized (
      select s.*, false as _keeps_start from standing s left join desired d on ${samePiece(target)} where d._version is null
    ),
    pieces as materialized (
      select d.*, false as _in_place from desired d left join standing s on ${samePiece(target)} where s._version is null
    )`;
}

/** The same row: of the same correction, over the same period. */
function samePiece(target: Target): string {
  const sameRow = `s._version = d._version and ${sameKey(target.key, 's', 'd')}`;
  if (target.kind === 'facts') return sameRow;
  const { from, to } = target.period;
  return `${sameRow} and s.${ident(from.name)} = d._part_from and s.${ident(to.name)} = d._part_to`;
}
