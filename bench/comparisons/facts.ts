import { paymentStream, rowsToRestate } from '../data/stream.ts';
import type { Mix, Stream, Writing } from '../data/stream.ts';
import type { Comparison, Size } from '../harness/comparison.ts';
import type { Contestant } from '../harness/contestant.ts';
import { measure } from '../harness/measure.ts';
import type { BenchServers } from '../harness/servers.ts';
import { decodingAlone } from '../pipelines/decoding.ts';
import { debezium, hasJava } from '../pipelines/debezium/debezium.ts';
import { emendPipeline } from '../pipelines/emend.ts';
import { jobQueue } from '../pipelines/job-queue/job-queue.ts';
import { nativeReplication } from '../pipelines/native.ts';
import { findRecvlogical } from '../pipelines/recvlogical.ts';
import { statementOverLog, upsertPayments } from '../pipelines/statement-over-log.ts';
import { tutorialDesign } from '../pipelines/tutorial/tutorial.ts';

const emend = 'emend';
const limit = 'one statement over a log in the store';
const native = 'logical replication of PostgreSQL';
const decoding = 'decoding alone, rows dropped by pg_recvlogical';
const tutorial = 'a job and a statement a row (BullMQ)';
const queue = 'a queue in the source (graphile-worker), merged as emend does';
const withDebezium = 'Debezium with its JDBC sink, as it comes';
const withTunedDebezium = 'Debezium with its JDBC sink, tuned';
const withHandWritten = 'Debezium, batched upserts written by hand';

/** One row in so many rows of a turn is enough for the slowest. */
const tutorialOneIn = 20;

/** The limit of whatever reads the WAL, where a client is found that is not itself in the way. */
function decodingOf(servers: BenchServers, stream: Stream): Contestant<Writing>[] {
  const file = findRecvlogical(servers.binDir);
  if (file !== undefined) return [decodingAlone(decoding, stream, file)];
  console.log('Decoding alone is left out: it needs pg_recvlogical.');
  return [];
}

function contestantsOf(
  servers: BenchServers,
  { mix, quick, rows }: { readonly mix: Mix; readonly quick: boolean; readonly rows: number },
) {
  const stream = paymentStream(mix, quick ? 125 : rowsToRestate);
  const suffix =
    mix === 'half'
      ? 'on conflict (payment_id) do update set paid_on = excluded.paid_on, amount = excluded.amount'
      : '';
  if (!hasJava()) console.log('Debezium is left out: it needs java and mvn, and does not run in CI.');
  return [
    emendPipeline(emend, stream),
    nativeReplication(native, stream, suffix),
    statementOverLog(limit, stream, { sql: upsertPayments }),
    ...decodingOf(servers, stream),
    jobQueue(queue, stream),
    tutorialDesign(tutorial, stream, Math.ceil(rows / tutorialOneIn)),
    ...(hasJava()
      ? [
          debezium(withDebezium, stream, 'jdbc-sink'),
          debezium(withTunedDebezium, stream, 'jdbc-sink-tuned'),
          debezium(withHandWritten, stream, 'hand-written'),
        ]
      : []),
  ];
}

/** Half a minute a contestant and round at most, for the slower of them. One quick run shows that programs wake up again. */
function sizesOf({ quick }: Size, mix: Mix) {
  return quick
    ? { quick, rows: 500, perTransaction: 50, warmUp: 0, rounds: mix === 'half' ? 2 : 1 }
    : { quick, rows: 200_000, perTransaction: 1_000, warmUp: 1, rounds: 5 };
}

function facts(name: string, title: string, mix: Mix): Comparison {
  return {
    name,
    title,
    measure: (servers, size) => {
      const { rows, perTransaction, ...rounds } = sizesOf(size, mix);
      return measure(servers, {
        ...rounds,
        contestants: contestantsOf(servers, { mix, quick: rounds.quick, rows }),
        work: (round) => ({ first: round * rows + 1, last: (round + 1) * rows, perTransaction }),
      });
    },
    ratios: [
      { of: emend, to: native, atMost: 1 / 0.3 },
      { of: emend, to: limit },
      { of: emend, to: decoding, mayLack: true },
      { of: emend, to: queue },
      { of: emend, to: tutorial, atMost: 1 / 8 },
      { of: emend, to: withDebezium, atMost: 1 / 3, mayLack: true },
      { of: emend, to: withTunedDebezium, atMost: 1 / 3, mayLack: true },
      { of: emend, to: withHandWritten, mayLack: true },
      { of: `${emend}: CPU of the reader`, atMost: 8, mayLack: true },
    ],
  };
}

export const factsInserts = facts(
  'facts-inserts',
  'Facts end to end, 200,000 rows of new keys in transactions of 1,000',
  'inserts',
);

export const factsHalf = facts(
  'facts-half',
  'Facts end to end, 200,000 rows in transactions of 1,000, every other one restates a key',
  'half',
);

export const factsOneTransaction: Comparison = {
  name: 'facts-one-transaction',
  title: 'Facts end to end, one transaction of 1,000,000 rows of new keys',
  measure: (servers, { quick }) => {
    const rows = quick ? 2_000 : 1_000_000;
    const stream = paymentStream('inserts', 0);
    return measure(servers, {
      warmUp: 0,
      rounds: quick ? 1 : 3,
      contestants: [
        emendPipeline(emend, stream),
        nativeReplication(native, stream),
        ...decodingOf(servers, stream),
      ],
      work: (round) => ({ first: round * rows + 1, last: (round + 1) * rows, perTransaction: rows }),
    });
  },
  ratios: [
    { of: emend, to: native, atMost: 1 / 0.8 },
    { of: emend, to: decoding, mayLack: true },
    { of: `${emend}: CPU of the reader`, atMost: 8, mayLack: true },
  ],
};
