import { readFileSync } from 'node:fs';
import type { Pool } from 'pg';
import { paymentStream } from '../data/stream.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import type { Measured } from '../harness/measure.ts';
import { quantile } from '../harness/statistics.ts';
import { backfillLoad, copyAndReplicate } from '../pipelines/backfill-load.ts';
import { openEmendInstall } from '../pipelines/emend-install.ts';
import type { EmendInstall, Running } from '../pipelines/emend-install.ts';
import { latenciesOf, writePaced } from '../pipelines/latencies.ts';

const emend = 'emend backfill load, until it is staged';
const native = 'COPY, and logical replication of PostgreSQL';
const stream = paymentStream('inserts', 0);

export const backfillLoading: Comparison = {
  name: 'backfill-load',
  title: 'A file of 1,000,000 rows, from the source into the store',
  measure: (servers, { quick }) => {
    const rows = quick ? 500 : 1_000_000;
    return measure(servers, {
      warmUp: quick ? 0 : 1,
      rounds: quick ? 1 : 5,
      contestants: [backfillLoad(emend, stream), copyAndReplicate(native, stream)],
      work: (round) => ({ first: round * rows + 1, last: (round + 1) * rows, perTransaction: rows }),
    });
  },
  ratios: [{ of: emend, to: native, atMost: 2 }],
};

const p99 = 'live corrections meanwhile, p99 from commit to visible';
const worst = 'the slowest of them';
const took = 'the promote, as its author waits for it';
const memory = 'greatest memory of the worker since it began';
const size = 'store, a correction: target, ledger, and what is beside it';
const diff = 'store, a correction: its row of the diff';

/** Facts of new keys: each is one row of the target and one of the diff. */
export const backfillLive: Comparison = {
  name: 'backfill-live',
  title: 'Live corrections, memory and disk while a backfill of 1,000,000 rows is promoted',
  measure: async (servers, { quick }) => {
    const rows = quick ? 500 : 1_000_000;
    const install = await openEmendInstall(servers, stream);
    const found: Record<string, number[]> = {
      [p99]: [],
      [worst]: [],
      [took]: [],
      [memory]: [],
      [size]: [],
      [diff]: [],
    };
    try {
      // numbers of live rows: below those of backfills, which are below zero
      let next = 1;
      for (let round = 0; round < (quick ? 1 : 3); round += 1) {
        const running = await install.startBoth();
        try {
          const backfill = await load(install, `b-${round}`, rows);
          const before = await sizesOf(install.store.pool);
          const ends = await promoteMeanwhile(install, backfill, next);
          const after = await sizesOf(install.store.pool);
          const latencies = await latenciesOf(install, stream, { first: next, end: ends.end });
          next = ends.end;
          found[p99]!.push(quantile(latencies, 0.99));
          found[worst]!.push(Math.max(...latencies));
          found[took]!.push(ends.tookMs);
          found[memory]!.push(peakMegabytes(running.worker));
          found[size]!.push((after.kept - before.kept) / (rows + latencies.length));
          found[diff]!.push(before.diff / rows / (round + 1));
          await expectPromoted(install.store.pool, backfill, rows);
        } finally {
          await running.stop();
        }
      }
    } finally {
      await install.close();
    }
    const units: Readonly<Record<string, Measured['unit']>> = {
      [memory]: 'MB',
      [size]: 'bytes',
      [diff]: 'bytes',
    };
    return Object.entries(found).map(([contestant, rounds]) => ({
      contestant,
      unit: units[contestant] ?? 'ms',
      rounds,
    }));
  },
  ratios: [
    { of: p99, atMost: 1_000 },
    { of: memory, atMost: 300 },
  ],
};

/** Until it is checked. */
async function load(install: EmendInstall, name: string, rows: number): Promise<string> {
  const { cli } = install;
  const select = `select '${name}-' || n as payment_id, date '2026-01-01' as paid_on, -1 as amount from generate_series(1, ${rows}) n`;
  await cli.expect([
    'backfill',
    'open',
    name,
    '--target',
    stream.target,
    '--reason',
    'bench',
    '--logic-version',
    'bench',
  ]);
  await cli.expect(['backfill', 'load', name, '--sql', select]);
  await cli.expect(['backfill', 'seal', name]);
  return name;
}

async function promoteMeanwhile(
  install: EmendInstall,
  backfill: string,
  first: number,
): Promise<{ readonly end: number; readonly tookMs: number }> {
  const startedAt = performance.now();
  let endedAt: number | undefined;
  const promoted = install.cli
    .expect(['backfill', 'promote', backfill, '--reason', 'bench'])
    .finally(() => (endedAt = performance.now()));
  const goesOn = (): boolean => endedAt === undefined;
  const end = await writePaced(install, stream, {
    first,
    perTransaction: 1,
    transactionsPerSecond: 50,
    goesOn,
  });
  await promoted;
  await install.cli.expect(['wait']);
  return { end, tookMs: endedAt! - startedAt };
}

interface Sizes {
  readonly kept: number;
  readonly diff: number;
}

/** Bytes of the tables with their indexes. What was staged is gone, and its pages are free. */
async function sizesOf(store: Pool): Promise<Sizes> {
  const { rows } = await store.query<Record<keyof Sizes, string>>(
    `select sum(s.bytes) filter (where s.name not in ('backfill_change', '${stream.target}_staged')) as kept,
       sum(s.bytes) filter (where s.name = 'backfill_change') as diff
     from (
       select c.relname as name, pg_total_relation_size(c.oid) as bytes
       from pg_class c
       where c.relkind = 'r' and c.relnamespace in ('emend'::regnamespace, 'public'::regnamespace)
     ) as s`,
  );
  return { kept: Number(rows[0]!.kept), diff: Number(rows[0]!.diff) };
}

/** The kernel's own record of it (proc(5): VmHWM). */
function peakMegabytes({ pid }: Running): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) / 1_024;
}

async function expectPromoted(store: Pool, backfill: string, rows: number): Promise<void> {
  const { rows: found } = await store.query<{ rows: string; times: string }>(
    `select count(*) as rows, count(distinct _known_from) as times from public.${stream.target} where _backfill = $1`,
    [backfill],
  );
  const { rows: held, times } = found[0]!;
  if (held !== String(rows) || times !== '1')
    throw new Error(`${held} rows of ${backfill} stand, told at ${times} times, and not ${rows} at one`);
}
