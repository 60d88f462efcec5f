import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paymentStream } from '../data/stream.ts';
import type { Comparison } from '../harness/comparison.ts';
import type { Measured } from '../harness/measure.ts';
import { quantile } from '../harness/statistics.ts';
import { openWrittenInstall } from '../pipelines/emend-install.ts';
import type { WrittenInstall } from '../pipelines/emend-install.ts';
import { rowsMerged, untilMerged } from '../pipelines/emend.ts';
import { latenciesOf, writePaced } from '../pipelines/latencies.ts';

const stream = paymentStream('inserts', 0);
const idle = 'nothing else to do, 100 rows a second';
const half = 'half of the greatest rate';
const backfill = 'a backfill runs meanwhile, 100 rows a second';

interface Sizes {
  /** Not counted. */
  readonly warmUp: number;
  readonly rounds: number;
  readonly seconds: number;
  /** Rows at full speed, in transactions as those of half the speed: that finds what the half is. */
  readonly burstRows: number;
  readonly perTransaction: number;
  readonly backfillRows: number;
}

const full: Sizes = {
  warmUp: 1,
  rounds: 3,
  seconds: 15,
  burstRows: 100_000,
  perTransaction: 100,
  backfillRows: 200_000,
};
const quick: Sizes = {
  warmUp: 0,
  rounds: 1,
  seconds: 1,
  burstRows: 500,
  perTransaction: 10,
  backfillRows: 200,
};

/** What has been written so far, of which all rounds know. */
interface Bench extends WrittenInstall {
  next: number;
}

export const latency: Comparison = {
  name: 'latency',
  title: 'From commit in the source to visible in the store, facts of new keys',
  measure: async (servers, size) => {
    const sizes = size.quick ? quick : full;
    const bench: Bench = { ...(await openWrittenInstall(servers, stream)), next: 1 };
    const found = new Map<string, number[]>();
    const note = (name: string, latencies: readonly number[]): void => {
      for (const [label, share] of [
        ['p50', 0.5],
        ['p99', 0.99],
      ] as const)
        found.set(`${name}, ${label}`, [
          ...(found.get(`${name}, ${label}`) ?? []),
          quantile(latencies, share),
        ]);
    };
    try {
      await bench.startBoth();
      const forSeconds = (elapsedMs: number) => elapsedMs < sizes.seconds * 1_000;
      for (let round = 0; round < sizes.warmUp + sizes.rounds; round += 1) {
        const alone = await paced(bench, 1, 100, forSeconds);
        const rowsPerSecond = await burst(bench, sizes);
        const busy = await paced(
          bench,
          sizes.perTransaction,
          rowsPerSecond / 2 / sizes.perTransaction,
          forSeconds,
        );
        const during = await duringBackfill(bench, sizes.backfillRows, round);
        if (round < sizes.warmUp) continue;
        note(idle, alone);
        note(half, busy);
        note(backfill, during);
      }
    } finally {
      await bench.close();
    }
    return [...found].map(([contestant, rounds]): Measured => ({ contestant, unit: 'ms', rounds }));
  },
  ratios: [
    { of: `${idle}, p50`, atMost: 5 },
    { of: `${idle}, p99`, atMost: 15 },
    { of: `${half}, p99`, atMost: 100 },
    { of: `${backfill}, p99`, atMost: 150 },
  ],
};

/** Latencies of rows that are written at a pace. */
async function paced(
  bench: Bench,
  perTransaction: number,
  transactionsPerSecond: number,
  goesOn: (elapsedMs: number) => boolean,
): Promise<number[]> {
  const first = bench.next;
  const end = await writePaced(bench, stream, { first, perTransaction, transactionsPerSecond, goesOn });
  bench.next = end;
  await bench.cli.expect(['wait']);
  return latenciesOf(bench, stream, { first, end });
}

/** Rows a second, end to end. */
async function burst(bench: Bench, { burstRows, perTransaction }: Sizes): Promise<number> {
  const first = bench.next;
  bench.next += burstRows;
  const mergedBefore = await rowsMerged(bench.store.pool);
  const startedAt = performance.now();
  await bench.write({ first, last: bench.next - 1, perTransaction });
  await untilMerged(bench.store.pool, mergedBefore + burstRows);
  return (1_000 * burstRows) / (performance.now() - startedAt);
}

/** Live corrections from the first row of a backfill to its promotion. */
async function duringBackfill(bench: Bench, rows: number, round: number): Promise<number[]> {
  const name = `restate-${round}`;
  const file = join(bench.cli.dir, `${name}.sql`);
  writeFileSync(file, backfillFile(rows, round));
  let runs = true;
  const run = bench.cli
    .expect(['backfill', 'run', file, '--promote', '--reason', 'bench'])
    .finally(() => (runs = false));
  const latencies = await paced(bench, 1, 100, () => runs);
  await run;
  return latencies;
}

/** Keys and values of its own: the live rows stay those that were written live. */
function backfillFile(rows: number, round: number): string {
  return `-- target: payments
-- reason: a bench of what goes on meanwhile
-- logic-version: bench
-- on: source
select 'backfill-${round}-' || n as payment_id, date '2026-01-01' as paid_on, -1 as amount
from generate_series(1, ${rows}) n
`;
}
