import type { ClientBase } from 'pg';
import { ident, literal } from '../db/identifier.ts';
import type { Target, TimelineTarget } from '../change/target.ts';
import { verdictOf } from '../db/sqlstate.ts';
import { sameKey, sameValue } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';
import { thresholdOf } from './check-staged.ts';
import { atMost, note } from './findings.ts';
import type { Finding } from './findings.ts';
import type { Backfill } from './state.ts';

/** A row that somebody worked out by hand: what the answer has to be. */
export interface Sample {
  readonly target: string;
  readonly key: Readonly<Record<string, string>>;
  /** Timelines only. */
  readonly validAt?: string;
  /** Null: no answer. */
  readonly values: Readonly<Record<string, string | null>> | null;
}

/** The author's own checks, as `corrections._backfill.checks` holds them. */
export interface StatedChecks {
  /** Name -> a query that must return no row. It reads the tables as they would be. */
  readonly sql?: Readonly<Record<string, string>>;
  readonly samples?: readonly Sample[];
}

/**
 * Checks of what the tables have become, inside the transaction that made them so, and before it commits: of a trial, which
 * is rolled back, and of the promote itself.
 */
export async function checkResult(
  client: ClientBase,
  backfill: Backfill,
  targets: readonly Target[],
): Promise<Finding[]> {
  const { sql = {}, samples = [] } = backfill.checks as StatedChecks;
  const findings: Finding[] = [];
  for (const target of targets) {
    if (target.kind === 'timeline') {
      findings.push(await overlaps(client, backfill, target));
      findings.push(await gapsOpened(client, backfill, target));
    }
    const wanted = samples.filter((sample) => sample.target === target.name);
    if (wanted.length > 0) findings.push(await compareSamples(client, target, wanted));
  }
  for (const [name, query] of Object.entries(sql))
    findings.push(await mustBeEmpty(client, backfill, name, query));
  return findings;
}

/**
 * Pieces that overlap one of the backfill: each with the one before it, and what begins inside it and is of somebody else. What lies
 * beside a piece is looked up; the rest of its key, which may have a long past, is not read.
 */
async function overlaps(client: ClientBase, { name }: Backfill, target: TimelineTarget): Promise<Finding> {
  const table = targetTable(target);
  const f = ident(target.period.from.name);
  const end = (alias: string): string => toAxis(target.period, `${alias}.${ident(target.period.to.name)}`);
  const { rows } = await client.query<{ figure: string }>(
    `select (count(*) filter (where before.overlaps) + coalesce(sum(inside.pieces), 0))::text as figure
     from ${table} p
     cross join lateral (
       select exists (
         select from ${table} q
         where ${sameKey(target.key, 'q', 'p')} and ${end('q')} > p.${f}
           and q.${f} = (select max(b.${f}) from ${table} b where ${sameKey(target.key, 'b', 'p')} and b.${f} < p.${f})
       ) as overlaps
     ) as before
     cross join lateral (
       select count(*) as pieces
       from ${table} q
       where ${sameKey(target.key, 'q', 'p')} and q.${f} > p.${f} and q.${f} < ${end('p')}
         and q._backfill is distinct from p._backfill
     ) as inside
     where p._backfill = $1`,
    [name],
  );
  return atMost(target.name, 'overlaps', Number(rows[0]!.figure), 0);
}

/** Parts that had an answer before and have none now, while the pieces before and behind them stand: periods that touched. */
async function gapsOpened(client: ClientBase, backfill: Backfill, target: TimelineTarget): Promise<Finding> {
  const { from, to, rangeType } = target.period;
  const stands = (touches: string): string => {
    const isKey = target.key.map(
      ({ name, equals, baseType }) => `p.${ident(name)} ${equals} (l.key ->> ${literal(name)})::${baseType}`,
    );
    return `exists (select from ${targetTable(target)} p where ${isKey.join(' and ')} and ${touches})`;
  };
  const { rows } = await client.query<{ figure: string }>(
    `with lost as (
       select c.key, unnest(range_agg(${rangeType}(c.valid_from::${from.baseType}, c.valid_to::${from.baseType}))) as during
       from emend.backfill_change c
       where c.backfill = $1 and c.target = $2 and c.new is null and c.side is distinct from 'planned'
       group by c.key
     )
     select count(*) as figure
     from lost l
     where ${stands(`p.${ident(from.name)} = upper(l.during)`)}
       and ${stands(`${toAxis(target.period, `p.${ident(to.name)}`)} = lower(l.during)`)}`,
    [backfill.name, target.name],
  );
  const figure = Number(rows[0]!.figure);
  const bound = thresholdOf(backfill, 'gaps_opened');
  // a retraction in the middle may be meant
  return bound === undefined
    ? note(target.name, 'gaps_opened', figure)
    : atMost(target.name, 'gaps_opened', figure, bound);
}

/** The author's SQL may read and nothing else: it runs read-only, inside a savepoint. What cannot be run has not passed. */
async function mustBeEmpty(
  client: ClientBase,
  backfill: Backfill,
  name: string,
  query: string,
): Promise<Finding> {
  await client.query('savepoint author_check');
  try {
    await client.query('set local transaction_read_only = on');
    const { rows } = await client.query<{ figure: string }>(
      `select count(*)::text as figure from (${query}\n) as found`,
    );
    return atMost(backfill.targets[0]!, name, Number(rows[0]!.figure), 0);
  } catch (error) {
    if (verdictOf(error) === 'retry') throw error;
    const figure = `cannot be run: ${(error as Error).message}`;
    return { target: backfill.targets[0]!, name, figure, threshold: 'at most 0', verdict: 'fail' };
  } finally {
    await client.query('rollback to savepoint author_check');
  }
}

async function compareSamples(
  client: ClientBase,
  target: Target,
  samples: readonly Sample[],
): Promise<Finding> {
  const keyIs = target.key
    .map(
      ({ name, baseType, equals }) =>
        `a.${ident(name)} ${equals} (e.sample -> 'key' ->> ${literal(name)})::${baseType}`,
    )
    .join(' and ');
  const from =
    target.kind === 'timeline'
      ? `${ownObject(target, 'at')}((e.sample ->> 'validAt')::${target.period.from.type})`
      : targetTable(target);
  const differs = target.values.map((column) => {
    const name = literal(column.name);
    return `(e.sample -> 'values' ? ${name} and not ${sameValue(column, `a.${ident(column.name)}`, `(e.sample -> 'values' ->> ${name})::${column.baseType}`)})`;
  });
  const { rows } = await client.query<{ figure: string; first: string | null }>(
    `select count(*)::text as figure, min(e.place)::text as first
     from jsonb_array_elements($1::jsonb) with ordinality as e (sample, place)
     left join lateral (select true as _found, a.* from ${from} a where ${keyIs} limit 1) as a on true
     where (a._found is null) <> (jsonb_typeof(e.sample -> 'values') = 'null')
       or (a._found and (${differs.length > 0 ? differs.join(' or ') : 'false'}))`,
    [JSON.stringify(samples)],
  );
  const { figure, first } = rows[0]!;
  const details = first === null ? {} : { firstDiffering: samples[Number(first) - 1] };
  return atMost(target.name, 'samples_differing', Number(figure), 0, details);
}
