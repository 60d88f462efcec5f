import type { ClientBase } from 'pg';

/** What a check found: a figure held against a threshold. */
export interface Finding {
  readonly target: string;
  /** What a failing check is accepted by. */
  readonly name: string;
  readonly figure: string;
  readonly threshold: string;
  /** `note`: a figure to look at, with no threshold. */
  readonly verdict: 'pass' | 'fail' | 'note';
  readonly details?: Readonly<Record<string, unknown>>;
}

/** A figure that has to stay at or below a bound. */
export function atMost(
  target: string,
  name: string,
  figure: number,
  bound: number,
  details?: Finding['details'],
): Finding {
  return {
    target,
    name,
    figure: String(figure),
    threshold: `at most ${bound}`,
    verdict: figure <= bound ? 'pass' : 'fail',
    ...(details ? { details } : {}),
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

export function describeBlocking(findings: readonly Finding[]): string {
  const each = findings.map(
    ({ target, name, figure, threshold }) => `${name} of ${target}: ${figure}, ${threshold}`,
  );
  return `checks failed: ${each.join('; ')}`;
}
