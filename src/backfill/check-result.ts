import type { ClientBase } from 'pg';
import { ident, literal } from '../db/identifier.ts';
import type { Target, TimelineTarget } from '../change/target.ts';
import { verdictOf } from '../db/sqlstate.ts';
import { sameKey, sameValue } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { toAxis } from '../store/period-form.ts';
import { thresholdOf } from './check-staged.ts';
import { atMost, note, shownExamples, withExamples } from './findings.ts';
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
    const figure = Number(rows[0]!.figure);
    return withExamples(
      atMost(backfill.targets[0]!, name, figure, 0),
      figure === 0 ? [] : await firstRows(client, query),
    );
  } catch (error) {
    if (verdictOf(error) === 'retry') throw error;
    const figure = `cannot be run: ${(error as Error).message}`;
    return { target: backfill.targets[0]!, name, figure, threshold: 'at most 0', verdict: 'fail' };
  } finally {
    await client.query('rollback to savepoint author_check');
  }
}

/** Characters of a row that are shown. */
const shownOfRow = 200;

async function firstRows(client: ClientBase, query: string): Promise<string[]> {
  const { rows } = await client.query<{ example: string }>(
    `select to_jsonb(found)::text as example from (${query}\n) as found limit ${shownExamples}`,
  );
  return rows.map(({ example }) =>
    example.length > shownOfRow ? `${example.slice(0, shownOfRow)}…` : example,
  );
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
  const differing = target.values.map((column) => {
    const name = literal(column.name);
    return `case when e.sample -> 'values' ? ${name} and not ${sameValue(column, `a.${ident(column.name)}`, `(e.sample -> 'values' ->> ${name})::${column.baseType}`)}
           then jsonb_build_object(${name}, a.${ident(column.name)}::text) end`;
  });
  const { rows } = await client.query<{ found: string }>(
    `select jsonb_build_object('place', e.place - 1, 'hasAnswer', a._found is not null, 'differing', (
         select coalesce(jsonb_agg(d.value), '[]')
         from unnest(array[${differing.join(', ')}]::jsonb[]) as d (value)
         where a._found and d.value is not null
       ))::text as found
     from jsonb_array_elements($1::jsonb) with ordinality as e (sample, place)
     left join lateral (select true as _found, a.* from ${from} a where ${keyIs} limit 1) as a on true
     order by e.place`,
    [JSON.stringify(samples)],
  );
  const wrong = rows
    .map(({ found }) => JSON.parse(found) as Compared)
    .filter(({ place, hasAnswer, differing: columns }) => {
      const isWanted = samples[place]!.values !== null;
      return hasAnswer !== isWanted || columns.length > 0;
    });
  return withExamples(
    atMost(target.name, 'samples_differing', wrong.length, 0),
    wrong.map((each) => describeDifference(samples[each.place]!, each)),
  );
}

/** What the tables have where a sample looks. */
interface Compared {
  /** Of the sample, from 0. */
  readonly place: number;
  readonly hasAnswer: boolean;
  /** Values of the answer that are not those of the sample, a column each. */
  readonly differing: readonly Readonly<Record<string, string | null>>[];
}

function describeDifference({ key, validAt, values }: Sample, { hasAnswer, differing }: Compared): string {
  // stated in SQL, nobody has looked at it
  const ofKey = Object.entries(key ?? {}).map(([name, value]) => `${name}=${value}`);
  const where = `${ofKey.join(' ')}${validAt === undefined ? '' : ` at ${validAt}`}`;
  if (values === null) return `${where}: there is an answer, and the sample wants none`;
  if (!hasAnswer) return `${where}: there is no answer`;
  const columns = differing
    .flatMap((each) => Object.entries(each))
    .map(([name, value]) => `${name} is ${value ?? 'null'}, and the sample wants ${values[name] ?? 'null'}`);
  return `${where}: ${columns.join('; ')}`;
}
