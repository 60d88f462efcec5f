import { Logger, run } from 'graphile-worker';
import { createPool } from '../../../src/db/pool.ts';
import { withClient } from '../../../src/db/transaction.ts';
import { createMerge, mergeSessions } from '../../../src/merge/merge.ts';
import { startClock } from '../../../src/store/clock.ts';
import { resolveTargets } from '../../../src/store/resolve-targets.ts';
import { factsLayout } from '../../data/payment-facts.ts';
import { noAbort, silentLog } from '../../../test/support/store.ts';

const { SOURCE_URL = '', STORE_URL = '', TARGET = '' } = process.env;
/** As many as `merge.concurrency` is by default. */
const jobsAtATime = 2;

const source = createPool({ url: SOURCE_URL, applicationName: 'bench job queue' });
const store = createPool({ url: STORE_URL, applicationName: 'bench job queue', ...mergeSessions });
const { declaration } = factsLayout({ rows: 0, historyPerRow: 0 });
const targets = await withClient(store, (client) => resolveTargets(client, [declaration]));
const merge = await createMerge({ pool: store, targets, log: silentLog });
startClock(store, silentLog);

let done = 0;

/** The rows of one transaction, as texts, column by column. */
async function rowsOf(first: number, last: number) {
  const { rows, fields } = await source.query<(string | null)[]>({
    text: `select * from corrections.${TARGET} where _id between $1 and $2 order by _id`,
    values: [first, last],
    rowMode: 'array',
  });
  const columns = fields.map(({ name }) => name);
  return { target: TARGET, columns, values: columns.map((_, column) => rows.map((row) => row[column]!)) };
}

const runner = await run({
  connectionString: SOURCE_URL,
  concurrency: jobsAtATime,
  noHandleSignals: true,
  logger: new Logger(() => () => undefined),
  taskList: {
    merge: async (payload) => {
      const { first, last } = payload as { first: number; last: number };
      const part = await rowsOf(first, last);
      const rows = last - first + 1;
      await merge({ id: `b-${first}`, parts: [part], rows, bytes: 0, endLsn: 0n, committedAtMs: 0 }, noAbort);
      done += rows;
      console.log(`done ${done}`);
    },
  },
});
runner.events.on('job:error', ({ error }) => {
  console.error(error);
  process.exit(1);
});
console.log('ready');
