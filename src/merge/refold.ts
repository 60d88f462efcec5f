import type { ClientBase } from 'pg';
import { ident } from '../db/identifier.ts';
import type { Target } from '../change/target.ts';
import { takeK } from '../store/clock.ts';
import { sameKey } from '../store/equality.ts';
import { foldAsked } from './fold.ts';
import { replaceStanding } from './replace-standing.ts';

/** Keys as text, one array a key column. */
export type KeyTexts = readonly (readonly string[])[];

/**
 * Brings keys to what their visible corrections say, and returns K. For when visibility changed: something was taken back.
 * Rows that stay as they are are not touched. The keys must have been taken (`takeKeys`), and their
 * visibility changed in this transaction, by `hide`, which is given K.
 */
export async function refold(
  client: ClientBase,
  target: Target,
  keys: KeyTexts,
  hide: (k: string) => Promise<void>,
): Promise<string> {
  const k = await takeK(client);
  await hide(k);
  await client.query(refoldSql(target, listedKeys(target)), [k, ...keys]);
  return k;
}

/** The keys that parameters 2 and on list. */
function listedKeys(target: Target): string {
  const casts = target.key.map(({ name, baseType }) => `a.${ident(name)}::${baseType} as ${ident(name)}`);
  const arrays = target.key.map((_, index) => `$${index + 2}::text[]`);
  const names = target.key.map(({ name }) => ident(name)).join(', ');
  return `
      select distinct ${casts.join(', ')}
      from unnest(${arrays.join(', ')}) as a (${names})`;
}

/** @param asked `select` of the keys; parameter 1 is K */
export function refoldSql(target: Target, asked: string): string {
  return `
    with
    told as materialized (select $1::timestamptz as k),
    asked as materialized (${asked}),
    ${foldAsked(target)},
    superseded as materialized (
      select s.* from standing s left join desired d on ${samePiece(target)} where d._version is null
    ),
    pieces as materialized (
      select d.* from desired d left join standing s on ${samePiece(target)} where s._version is null
    ),
    ${replaceStanding(target)},
    -- the floor of the next K
    counted as (insert into emend.merge (told_at, target, rows) select told.k, '${target.name}', 0 from told)
    select count(*) from pieces`;
}

/** The same row: of the same correction, over the same period. */
function samePiece(target: Target): string {
  const sameRow = `s._version = d._version and ${sameKey(target.key, 's', 'd')}`;
  if (target.kind === 'facts') return sameRow;
  const { from, to } = target.period;
  return `${sameRow} and s.${ident(from.name)} = d._part_from and s.${ident(to.name)} = d._part_to`;
}
