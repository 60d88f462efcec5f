import type { ClientBase, Pool } from 'pg';

/** What a check found: a figure held against a threshold. */
export interface Finding {
  readonly target: string;
  /** What a failing check is accepted by. */
  readonly name: string;
  readonly figure: string;
  readonly threshold: string;
  /** `note`: a figure to look at, with no threshold. */
  readonly verdict: 'pass' | 'fail' | 'note';
  /** `examples`: see `withExamples`; `months`, `files`: what the check of that name writes down. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** How many of what a check found are told. */
export const shownExamples = 5;

/** Where a check fails: the first few, in words. They may hold values, and go to whoever asks for the checks; never into a log. */
export function withExamples(finding: Finding, examples: readonly string[]): Finding {
  if (examples.length === 0) return finding;
  return { ...finding, details: { ...finding.details, examples: examples.slice(0, shownExamples) } };
}

/** A figure that has to stay at or below a bound. */
export function atMost(target: string, name: string, figure: number, bound: number): Finding {
  return {
    target,
    name,
    figure: String(figure),
    threshold: `at most ${bound}`,
    verdict: figure <= bound ? 'pass' : 'fail',
  };
}

export function note(target: string, name: string, figure: string | number): Finding {
  return { target, name, figure: String(figure), threshold: 'none', verdict: 'note' };
}

/** Replaces what was found of this backfill before. */
export async function writeFindings(
  client: Pick<ClientBase, 'query'>,
  backfill: string,
  findings: readonly Finding[],
  accept: Readonly<Record<string, string>>,
): Promise<void> {
  await client.query(`delete from emend.backfill_check where backfill = $1`, [backfill]);
  await client.query(
    `insert into emend.backfill_check (backfill, target, name, figure, threshold, verdict, accepted, details)
     select $1, found.target, found.name, found.figure, found.threshold, found.verdict, found.accepted, found.details
     from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::jsonb[])
       as found (target, name, figure, threshold, verdict, accepted, details)`,
    [
      backfill,
      findings.map(({ target }) => target),
      findings.map(({ name }) => name),
      findings.map(({ figure }) => figure),
      findings.map(({ threshold }) => threshold),
      findings.map(({ verdict }) => verdict),
      findings.map(({ name, verdict }) => (verdict === 'fail' ? (accept[name] ?? null) : null)),
      findings.map(({ details }) => JSON.stringify(details ?? {})),
    ],
  );
}

/** Failing and not accepted by name. */
export function blocking(findings: readonly Finding[], accept: Readonly<Record<string, string>>): Finding[] {
  return findings.filter(({ name, verdict }) => verdict === 'fail' && accept[name] === undefined);
}

/**
 * Takes down what a promote that is asked for accepts. From then on its problem is what it does not accept, if anything: what
 * it waits for is no problem.
 */
export async function acceptAsAsked(
  store: Pool,
  backfill: string,
  accept: Readonly<Record<string, string>>,
): Promise<void> {
  const { rows: failed } = await store.query<Finding>(
    `update emend.backfill_check
     set accepted = $2::jsonb ->> name
     where backfill = $1 and verdict = 'fail'
     returning target, name, figure, threshold, verdict`,
    [backfill, JSON.stringify(accept)],
  );
  const left = blocking(failed, accept);
  await store.query(
    `update emend.backfill set problem = $2 where name = $1 and problem is distinct from $2`,
    [backfill, left.length > 0 ? describeBlocking(left) : null],
  );
}

export function describeBlocking(findings: readonly Finding[]): string {
  const each = findings.map(
    ({ target, name, figure, threshold }) => `${name} of ${target}: ${figure} (asked for: ${threshold})`,
  );
  return `checks failed: ${each.join('; ')}`;
}
