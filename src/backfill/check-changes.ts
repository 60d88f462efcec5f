import type { ClientBase } from 'pg';
import { ident, literal } from '../db/identifier.ts';
import type { Target } from '../change/target.ts';
import { targetTable } from '../store/names.ts';
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
  const isAllNew = Number(counts['changed']) > 0 && counts['first'] === counts['changed'];
  const standing = isAllNew ? await readNullShares(client, target) : undefined;
  for (const column of target.values) {
    const value = (side: 'old' | 'new') => `(c.${side} ->> ${literal(column.name)})`;
    const nulls = (side: 'old' | 'new') =>
      `round(count(*) filter (where c.${side} is not null and ${value(side)} is null)::numeric / greatest(count(c.${side}), 1), 3)::text`;
    const sum = (side: 'old' | 'new') =>
      numeric.test(column.baseType) ? `coalesce(sum(${value(side)}::numeric), 0)::text` : 'null::text';
    const found = await ask(
      `${nulls('old')} as nulls_before, ${nulls('new')} as nulls_after, ${sum('old')} as sum_before, ${sum('new')} as sum_after`,
    );
    const before = standing ? standing[column.name]! : found['nulls_before']!;
    findings.push(nullShare(backfill, target, column.name, before, found['nulls_after']!));
    if (found['sum_before'] !== null)
      findings.push(
        note(target.name, `sum:${column.name}`, `${found['sum_before']} -> ${found['sum_after']}`),
      );
  }
  return findings;
}

/** @param before null: there is nothing that it could have risen from */
function nullShare(
  backfill: Backfill,
  target: Target,
  column: string,
  before: string | null,
  after: string,
): Finding {
  const name = `null_share:${column}`;
  if (before === null) return note(target.name, name, `none -> ${after}`);
  const bound = thresholdOf(backfill, 'null_share') ?? nullShareRise;
  return {
    target: target.name,
    name,
    figure: `${before} -> ${after}`,
    threshold: `a rise of at most ${bound}`,
    verdict: Number(after) - Number(before) <= bound ? 'pass' : 'fail',
  };
}

/**
 * Of each column of the target as it stands: what new answers alone are held against, which had no answer before. Reads all of
 * it; null where it is empty.
 */
async function readNullShares(
  client: ClientBase,
  target: Target,
): Promise<Readonly<Record<string, string | null>>> {
  const shares = target.values.map(({ name }) => {
    const nulls = `count(*) filter (where p.${ident(name)} is null)`;
    return `round(${nulls}::numeric / nullif(count(*), 0), 3)::text as ${ident(name)}`;
  });
  if (shares.length === 0) return {};
  const { rows } = await client.query<Record<string, string | null>>(
    `select ${shares.join(', ')} from ${targetTable(target)} p`,
  );
  return rows[0]!;
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
