import type { Pool } from 'pg';
import type { Sample, StatedChecks } from '../backfill/check-result.ts';
import type { Target } from '../change/target.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import type { Problem } from '../errors.ts';

/**
 * Looks whether an author's checks can be made at all: one that cannot fails later, when nothing of the backfill can be
 * changed any more; and a sample of a column that is not there would compare nothing.
 *
 * @throws EmendError `bad_arguments` with all that cannot
 */
export async function checkStatedChecks(
  store: Pool,
  targets: readonly Target[],
  checks: StatedChecks,
): Promise<void> {
  const { sql = {}, samples = [] } = checks;
  const problems = samples.flatMap((sample, place) =>
    checkSample(
      targets.find(({ name }) => name === sample.target),
      sample,
      `checks.samples[${place}]`,
    ),
  );
  for (const [name, query] of Object.entries(sql)) {
    const problem = await checkQuery(store, query);
    if (problem !== undefined) problems.push({ path: `checks.sql.${name}`, ...problem });
  }
  if (problems.length === 0) return;
  throw new EmendError('bad_arguments', 'the checks of the backfill cannot be made', {
    remedy: 'Correct what is said for each; nothing has been done.',
    problems,
  });
}

/** Planned, and not run, as the workers run it: read-only, with an empty search_path. */
async function checkQuery(
  store: Pool,
  query: string,
): Promise<Pick<Problem, 'problem' | 'remedy'> | undefined> {
  const client = await store.connect();
  try {
    await client.query('begin read only');
    await client.query(`explain select count(*) from (${query}\n) as found`);
    return undefined;
  } catch (error) {
    if (!/^(42|22|0A|25)/.test(sqlState(error) ?? '')) throw error;
    return {
      problem: `cannot be run in the store: ${(error as Error).message}`,
      remedy: 'Give one select, without parameters; names of tables and functions have their schema.',
    };
  } finally {
    await client.query('rollback').finally(() => client.release());
  }
}

function checkSample(target: Target | undefined, { key, values, validAt }: Sample, path: string): Problem[] {
  if (!target)
    return [{ path, problem: 'is of no target of the backfill', remedy: 'Name one of its targets.' }];
  const names = target.key.map(({ name }) => name);
  const columns = target.values.map(({ name }) => name);
  const problems: Problem[] = [];
  if (names.some((name) => typeof key[name] !== 'string') || Object.keys(key).length !== names.length)
    problems.push({
      path: `${path}.key`,
      problem: `is not the key of ${target.name}`,
      remedy: `Give a value for each of: ${names.join(', ')}.`,
    });
  if ((target.kind === 'timeline') !== (validAt !== undefined))
    problems.push({
      path: `${path}.validAt`,
      ...(target.kind === 'timeline'
        ? {
            problem: 'is missing',
            remedy: 'Give the instant at which the answer holds: valid_at (validAt beside key and values).',
          }
        : { problem: `means nothing: ${target.name} holds facts`, remedy: 'Leave it out.' }),
    });
  for (const name of Object.keys(values ?? {}).filter((each) => !columns.includes(each)))
    problems.push({
      path: `${path}.values.${name}`,
      problem: `is no column of ${target.name}`,
      remedy: `Its columns are: ${columns.join(', ')}.`,
    });
  return problems;
}
