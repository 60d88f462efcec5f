import type { ClientBase } from 'pg';
import { literal } from '../db/identifier.ts';
import type { Target } from '../change/target.ts';
import { thresholdOf } from './check-staged.ts';
import { atMost, note } from './findings.ts';
import type { Finding } from './findings.ts';
import type { Backfill } from './state.ts';

/** By how much the share of nulls in a column may rise. */
const nullShareRise = 0.1;

const numeric = /^(smallint|integer|bigint|numeric|real|double precision)$/;

/** What the answers would become, by the diff (`diff.ts`). */
export async function checkChanges(
  client: ClientBase,
  backfill: Backfill,
  target: Target,
): Promise<Finding[]> {
  const ask = async (sql: string): Promise<Readonly<Record<string, string | null>>> => {
    const { rows } = await client.query<Record<string, string | null>>(
      `select ${sql} from emend.backfill_change c where c.backfill = $1 and c.target = $2 and c.side is distinct from 'planned'`,
      [backfill.name, target.name],
    );
    return rows[0]!;
  };
  const counts = await ask(
    `count(*)::text as changed, count(*) filter (where old is null)::text as first, count(*) filter (where new is null)::text as lost,
     (${lostFromNowOn(target)})::text as lost_now`,
  );
  const findings = [
    note(target.name, 'changes', counts['changed']!),
    note(target.name, 'first_answers', counts['first']!),
    note(target.name, 'answers_lost', counts['lost']!),
    atMost(target.name, 'answers_lost_from_now_on', Number(counts['lost_now']), 0),
  ];
  for (const column of target.values) {
    const value = (side: 'old' | 'new') => `(c.${side} ->> ${literal(column.name)})`;
    const nulls = (side: 'old' | 'new') =>
      `round(count(*) filter (where c.${side} is not null and ${value(side)} is null)::numeric / greatest(count(c.${side}), 1), 3)::text`;
    const sum = (side: 'old' | 'new') =>
      numeric.test(column.baseType) ? `coalesce(sum(${value(side)}::numeric), 0)::text` : 'null::text';
    const found = await ask(
      `${nulls('old')} as nulls_before, ${nulls('new')} as nulls_after, ${sum('old')} as sum_before, ${sum('new')} as sum_after`,
    );
    const bound = thresholdOf(backfill, 'null_share') ?? nullShareRise;
    const rise = Number(found['nulls_after']) - Number(found['nulls_before']);
    findings.push({
      target: target.name,
      name: `null_share:${column.name}`,
      figure: `${found['nulls_before']} -> ${found['nulls_after']}`,
      threshold: `a rise of at most ${bound}`,
      verdict: rise <= bound ? 'pass' : 'fail',
    });
    if (found['sum_before'] !== null)
      findings.push(
        note(target.name, `sum:${column.name}`, `${found['sum_before']} -> ${found['sum_after']}`),
      );
  }
  return findings;
}

/**
 * Answers that hold now or later and would be gone: rows that reports about the present lose in silence. On an abstract axis
 * there is no now, and facts have no period: any answer that is lost counts.
 */
function lostFromNowOn(target: Target): string {
  if (target.kind === 'facts') return 'count(*) filter (where new is null)';
  const type = target.period.from.baseType;
  if (!/^(timestamp|date)/.test(type)) return 'count(*) filter (where new is null)';
  return `count(*) filter (where new is null and valid_to::${type} > clock_timestamp()::${type})`;
}
