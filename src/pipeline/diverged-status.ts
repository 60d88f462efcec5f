import type { Pool } from 'pg';
import type { Problem } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';

/** Where log and ledger have parted, since the source lost what was merged. */
export interface DivergedStatus {
  readonly rows: readonly DivergedCount[];
  /**
   * How many numbers the source is behind the store, so that it gives them out again; 0 when it is ahead, as it should be, or
   * may not be asked.
   */
  readonly numbersBehind: number;
}

/** Open rows of one target. */
interface DivergedCount {
  readonly target: string;
  readonly kind: 'lost' | 'reused';
  readonly count: number;
  readonly firstIds: readonly string[];
}

export async function readDivergedStatus(source: Pool, store: Pool): Promise<DivergedStatus> {
  const [open, known] = await Promise.all([
    store.query<{ target: string; kind: string; count: string; first_ids: string }>(
      `select d.target, d.kind, count(*) as count, array_to_string((array_agg(d._id order by d._id))[:3], ',') as first_ids
       from emend.diverged d
       where d.resolution is null
       group by d.target, d.kind
       order by d.target, d.kind desc`,
    ),
    store.query<{ id: string | null }>(`select emend.ledger_last_id() as id`),
  ]);
  // afterwards: what was merged by then, has its number from the source
  const given = await source.query<{ id: string | null }>(
    `select last_value as id from pg_sequences where schemaname = 'corrections' and sequencename = '_id'`,
  );
  const [merged, last] = [known.rows[0]?.id ?? null, given.rows[0]?.id ?? null];
  return {
    rows: open.rows.map(({ target, kind, count, first_ids: firstIds }) => ({
      target,
      kind: kind as DivergedCount['kind'],
      count: Number(count),
      firstIds: firstIds.split(','),
    })),
    numbersBehind: merged === null || last === null ? 0 : Math.max(0, Number(BigInt(merged) - BigInt(last))),
  };
}

export function judgeDiverged({ rows, numbersBehind }: DivergedStatus): Problem[] {
  const problems = rows.map(({ target, kind, count, firstIds }) => {
    const ids = `_id ${firstIds.join(', ')}${count > firstIds.length ? ', …' : ''}`;
    const path = `targets.${target}`;
    if (kind === 'reused') {
      return {
        path,
        problem: `diverged: ${countOf(count, 'log row has a number', 'log rows have numbers')} that the store knows of another row, and so not merged (${ids})`,
        remedy: `The source was restored, or a standby promoted with a lag. See emend diverged list --target ${target}; to merge them as new corrections: emend diverged adopt --all --target ${target} --reason "…".`,
      };
    }
    return {
      path,
      problem: `diverged: ${countOf(count, 'merged correction is', 'merged corrections are')} no longer in the log (${ids})`,
      remedy: `The source lost what was merged; its effect stays. See emend diverged list --target ${target}; write corrections over what is not to stay, then emend diverged keep --all --target ${target} --reason "…".`,
    };
  });
  if (numbersBehind === 0) return problems;
  return [
    ...problems,
    {
      path: 'source',
      problem: `diverged: the source is ${countOf(numbersBehind, 'number')} behind the store, and gives numbers out again that the store knows`,
      remedy:
        'It is an older state of itself. Let nothing write corrections, then emend diverged adopt --all --reason "…", which also moves its numbers on.',
    },
  ];
}
