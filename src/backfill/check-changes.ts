import type { ClientBase } from 'pg';
import { ident, literal } from '../db/identifier.ts';
import type { Column, Target } from '../change/target.ts';
import { targetTable } from '../store/names.ts';
import { thresholdOf } from './check-staged.ts';
import { atMost, note } from './findings.ts';
import type { Finding } from './findings.ts';
import type { Backfill } from './state.ts';

/** By how much the share of nulls in a column may rise. */
const nullShareRise = 0.1;

/** Whether it has a sum. */
export function isNumeric({ baseType }: Column): boolean {
  return /^(smallint|integer|bigint|numeric|real|double precision)$/.test(baseType);
}

/** What the answers would become, by the diff (`diff.ts`), which is read once for all columns. */
export async function checkChanges(
  client: ClientBase,
  backfill: Backfill,
  target: Target,
): Promise<Finding[]> {
  const { rows } = await client.query<Readonly<Record<string, string | null>>>(
    `select count(*)::text as changed, count(*) filter (where old is null)::text as first, count(*) filter (where new is null)::text as lost,
       (${lostFromNowOn(target)})::text as lost_now
       ${target.values.map((column, place) => `, ${ofColumn(column, place)}`).join('')}
     from emend.backfill_change c
     where c.backfill = $1 and c.target = $2 and c.side is distinct from 'planned'`,
    [backfill.name, target.name],
  );
  const found = rows[0]!;
  const findings = [
    note(target.name, 'changes', found['changed']!),
    note(target.name, 'first_answers', found['first']!),
    note(target.name, 'answers_lost', found['lost']!),
    atMost(target.name, 'answers_lost_from_now_on', Number(found['lost_now']), 0),
  ];
  const isAllNew = Number(found['changed']) > 0 && found['first'] === found['changed'];
  const standing = isAllNew ? await readNullShares(client, target) : undefined;
  for (const [place, { name }] of target.values.entries()) {
    const before = standing ? standing[name]! : found[`nulls_before_${place}`]!;
    findings.push(nullShare(backfill, target, name, before, found[`nulls_after_${place}`]!));
    const sums = [found[`sum_before_${place}`], found[`sum_after_${place}`]];
    if (sums[0] !== null) findings.push(note(target.name, `sum:${name}`, sums.join(' -> ')));
  }
  return findings;
}

/** Share of nulls and sum of one column, before and after, as texts; the sum of one that is no number is null. */
function ofColumn(column: Column, place: number): string {
  const { name } = column;
  const figures = (side: 'old' | 'new', when: string): string => {
    const value = `(c.${side} ->> ${literal(name)})`;
    const nulls = `count(*) filter (where c.${side} is not null and ${value} is null)`;
    const sum = isNumeric(column) ? `coalesce(sum(${value}::numeric), 0)::text` : 'null::text';
    return `round(${nulls}::numeric / greatest(count(c.${side}), 1), 3)::text as nulls_${when}_${place}, ${sum} as sum_${when}_${place}`;
  };
  return `${figures('old', 'before')}, ${figures('new', 'after')}`;
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
