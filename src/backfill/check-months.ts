import type { ClientBase } from 'pg';
import type { Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import { isNumeric } from './check-changes.ts';
import { startOf } from './check-staged.ts';
import { note } from './findings.ts';
import type { Finding } from './findings.ts';
import type { Backfill } from './state.ts';

/** The check whose details have `months`. */
export const changesByMonth = 'changes_by_month';

/** What changes in a month. */
export interface ChangedMonth {
  /** `2026-09`, of the start or the event time; null: it has no start. */
  readonly month: string | null;
  /** Answers before and after; a sum of null: no answer has the column. */
  readonly rows: readonly [number, number];
  readonly sums: Readonly<Record<string, readonly [string | null, string | null]>>;
}

/**
 * Rows and sums of what changes, month by month, before and after: a total hides that one month gained what another one lost. Only
 * where there are months. A fact that moves counts in the month that it leaves and in the one that it comes to.
 */
export async function checkMonths(
  client: ClientBase,
  backfill: Backfill,
  target: Target,
): Promise<Finding[]> {
  const start = startOf(target);
  if (!start || !/^(timestamp|date)/.test(start.baseType)) return [];
  const isInKey = target.key.some(({ name }) => name === start.name);
  const ofFact = `(${isInKey ? 'c.key' : 's.answer'} ->> ${literal(start.name)})`;
  const from = target.kind === 'facts' ? ofFact : 'c.valid_from';
  const numbers = target.values.filter(isNumeric).map(({ name }) => name);
  const count = (side: string): string => `count(*) filter (where s.side = '${side}')`;
  const sum = (name: string, side: string): string =>
    `(sum((s.answer ->> ${literal(name)})::numeric) filter (where s.side = '${side}'))::text`;
  const sums = numbers.map(
    (name) => `, ${literal(name)}, jsonb_build_array(${sum(name, 'old')}, ${sum(name, 'new')})`,
  );
  const { rows } = await client.query<{ months: string }>(
    `select coalesce(jsonb_agg(m.of_month order by m.of_month ->> 'month' nulls first), '[]')::text as months
     from (
       select jsonb_build_object('month', s.month, 'rows', jsonb_build_array(${count('old')}, ${count('new')}),
         'sums', jsonb_build_object(${sums.join('').slice(2)})) as of_month
       from (
         select s.*, case when isfinite(${from}::${start.baseType}) then to_char(${from}::${start.baseType}, 'YYYY-MM') end as month
         from emend.backfill_change c
         cross join lateral (values ('old', c.old), ('new', c.new)) as s (side, answer)
         where c.backfill = $1 and c.target = $2 and c.side is distinct from 'planned' and s.answer is not null
       ) as s
       group by s.month
     ) as m`,
    [backfill.name, target.name],
  );
  const months = JSON.parse(rows[0]!.months) as ChangedMonth[];
  if (months.length === 0) return [];
  const [first, last] = [months[0]!, months.at(-1)!].map(({ month }) => month ?? 'no start');
  const figure = first === last ? first : `${first} to ${last}`;
  return [{ ...note(target.name, changesByMonth, figure!), details: { months } }];
}
