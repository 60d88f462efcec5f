import type { ClientBase } from 'pg';
import type { Target } from '../change/target.ts';
import { ident, identList } from '../db/identifier.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';
import { startOf, thresholdOf } from './check-staged.ts';
import type { Finding } from './findings.ts';
import type { Backfill } from './state.ts';

/**
 * Rows and keys that stand within the boundary today, and that the backfill brings for it: half an export has half of them. Only
 * where the boundary says from when or to when: it reads the target as far as the boundary reaches.
 */
export async function checkAgainstToday(
  client: ClientBase,
  backfill: Backfill,
  target: Target,
): Promise<Finding[]> {
  const { from = null, to = null, where = null } = backfill.boundary[target.name] ?? {};
  const start = startOf(target);
  if (!start || (from === null && to === null)) return [];
  const count = async (table: string, end: string | null, also: string): Promise<Counted> => {
    // the end may be open in the boundary, and is the start's own where there are no periods
    const [first, last] = [`p.${ident(start.name)}`, end ?? `p.${ident(start.name)}`];
    const { rows } = await client.query<Counted>(
      `select count(*)::text as rows, count(distinct (${identList(target.key.map(({ name }) => name))}))::text as keys
       from ${table} p
       where ($2::text is null or ${first} < $2::text::${start.baseType})
         and ($1::text is null or ${last} ${end === null ? '>=' : '>'} $1::text::${start.baseType})
         and (${where ?? 'true'}\n) and ${also}`,
      [from, to, ...(also.includes('$3') ? [backfill.name] : [])],
    );
    return rows[0]!;
  };
  const isPeriod = target.kind === 'timeline' && target.mode === 'override';
  const end = (isAxis: boolean): string | null => {
    if (!isPeriod) return null;
    const column = `p.${ident(target.period.to.name)}`;
    return isAxis ? column : toAxis(target.period, column);
  };
  const today = await count(targetTable(target), end(false), 'true');
  const staged = await count(ownObject(target, 'staged'), end(true), 'p._backfill = $3');
  return (['rows', 'keys'] as const).map((what) =>
    against(backfill, target, `${what}_against_today`, Number(today[what]), Number(staged[what])),
  );
}

interface Counted {
  readonly rows: string;
  readonly keys: string;
}

/** A share of what stands today; nothing is held against it unless its author says so. */
function against(backfill: Backfill, target: Target, name: string, today: number, staged: number): Finding {
  const found = { target: target.name, name, figure: `${today} -> ${staged}` };
  const bound = thresholdOf(backfill, name);
  if (bound === undefined) return { ...found, threshold: 'none', verdict: 'note' };
  const share = Math.abs(staged - today) / Math.max(today, 1);
  return { ...found, threshold: `a change of at most ${bound}`, verdict: share <= bound ? 'pass' : 'fail' };
}
