import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { resolveConfig } from '../../src/config/config.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { readForms } from '../support/queue-forms.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { eventually } from '../support/eventually.ts';
import { query } from '../support/query.ts';
import { writeBackfill } from './backfill-author.ts';
import { settledBackfills } from './backfill-outcome.ts';
import { createBuiltCli } from './built-cli.ts';
import { expectModel } from './compare.ts';
import { applyFault } from './faults.ts';
import { startProcesses } from './processes.ts';
import type { Processes } from './processes.ts';
import type { Program } from './program.ts';
import type { Servers } from './servers.ts';
import { configTextOf, ddl, targets } from './targets.ts';
import { runWriter } from './writer.ts';

/** Two databases of their own on the servers of all programs, migrated, and the processes between them. */
export interface Bench {
  readonly servers: Servers;
  readonly queue: 'redis' | 'postgres';
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly config: ResolvedConfig;
  readonly processes: Processes;
}

/** A writer whose server does not come back has failed. */
const writersEndWithinMs = 60_000;
const settledWithinSeconds = 120;

/** What a program came to: that it did not do its harm in vain. */
export interface Outcome {
  /** Committed in the logs. */
  readonly rows: number;
  /** Ends of processes, by whatever. */
  readonly deaths: number;
  /** Put on the queue again by the sweep. */
  readonly sweptRows: number;
  /** The most batches that waited by reference at a time. */
  readonly references: number;
  /** Rows of the ledger that were moved to blocks. */
  readonly compacted: number;
  /** What became of the backfills. */
  readonly backfills: readonly string[];
  /** From the end of the last fault until everything was merged. */
  readonly settledMs: number;
}

/** Runs it, lets everything run again, and compares. */
export async function runProgram(
  servers: Servers,
  queue: 'redis' | 'postgres',
  program: Program,
): Promise<Outcome> {
  const name = `faults_${randomBytes(4).toString('hex')}`;
  await query(servers.source.url(), `create database ${name}`);
  await query(servers.store.url(), `create database ${name}`);
  const sourceUrl = servers.source.url(name);
  const storeUrl = servers.store.url(name);
  await query(storeUrl, ddl);
  const redis = queue === 'redis' ? servers.redis.url : undefined;
  const config = resolveConfig(
    {
      source: { url: sourceUrl },
      store: { url: storeUrl },
      queue: { redis },
      capture: { readers: program.shares },
      targets,
    },
    {},
  );
  await migrate({ config, print: false });

  const cli = createBuiltCli(configTextOf(program.shares), {
    SOURCE_URL: sourceUrl,
    STORE_URL: storeUrl,
    ...(redis === undefined ? {} : { REDIS_URL: redis }),
    ...(program.maxQueueBytes === null ? {} : { EMEND_FAULTS_MAX_BYTES: String(program.maxQueueBytes) }),
    ...(program.compacts ? { EMEND_FAULTS_COMPACTS: '1' } : {}),
    ...(program.hasRealLocks ? { EMEND_FAULTS_REAL_LOCKS: '1' } : {}),
  });
  const processes = startProcesses(cli, program);
  const bench = { servers, queue, sourceUrl, storeUrl, config, processes };
  let faults: string[] = [];
  try {
    await processes.ready();
    const watch = watchReferences(bench, program);
    const committed = await play(bench, program).finally(() => watch.end());
    const { stdout } = await cli.expect(['wait', '--timeout', String(settledWithinSeconds), '--json']);
    const { waitedMs: settledMs } = JSON.parse(stdout) as { waitedMs: number };
    const deaths = processes.output().match(/ ended with /g)?.length ?? 0;
    const { rows, compacted, backfills } = await compare(bench, program, committed, async () => {
      faults = await processes.end();
    });
    await cli.expect(['verify', '--json']);
    if (faults.length > 0) throw new Error(faults.join('\n'));
    const references = watch.most();
    return {
      rows,
      deaths,
      sweptRows: sweptRows(processes.output()),
      references,
      compacted,
      backfills,
      settledMs,
    };
  } catch (error) {
    const status = await cli.run(['status']);
    (error as Error).message +=
      `\n\nstatus:\n${status.stdout}${status.stderr}\n\noutput:\n${processes.output()}`;
    throw error;
  } finally {
    await processes.end();
    cli.remove();
    await dropDatabases(bench, name);
  }
}

/** Writers and faults, each at its time. Returns the numbers of the rows whose commit was answered. */
async function play(bench: Bench, { keys, writers, backfills, faults }: Program): Promise<bigint[]> {
  const { sourceUrl } = bench;
  const deadline = performance.now() + writersEndWithinMs;
  const [committed] = await Promise.all([
    Promise.all([
      ...writers.map((transactions) => runWriter(sourceUrl, keys, transactions, deadline)),
      ...backfills.map((plan, place) => writeBackfill(bench, keys, place, plan, deadline)),
    ]),
    Promise.all(
      faults.map(async (fault) => {
        await sleep(fault.atMs);
        await applyFault(bench, fault);
      }),
    ),
  ]);
  return committed.flat();
}

/** Nothing moves any more once `atRest` has ended. */
async function compare(
  { config, sourceUrl, storeUrl }: Bench,
  program: Program,
  committed: readonly bigint[],
  atRest: () => Promise<void>,
): Promise<{ rows: number; compacted: number; backfills: string[] }> {
  const source = createPool({ url: sourceUrl, applicationName: 'emend test' });
  const store = createPool({ url: storeUrl, applicationName: 'emend test' });
  try {
    const backfills = await settledBackfills({ source, store }, program.backfills);
    await atRest();
    const rows = await expectModel({
      source,
      store,
      backfills,
      targets: await withClient(store, (client) => resolveTargets(client, config.targets)),
      atomicRows: config.capture.atomicRows,
      committed,
    });
    const blocks = await store.query<{ rows: string }>(
      `select coalesce(sum(rows), 0) as rows from emend.ledger_block`,
    );
    return {
      rows,
      compacted: Number(blocks.rows[0]!.rows),
      backfills: [...backfills.values()].map(({ state }) => state),
    };
  } finally {
    await Promise.all([source.end(), store.end()]);
  }
}

/** That batches really went by reference where the queue is small. */
function watchReferences(
  { config, storeUrl }: Bench,
  { maxQueueBytes }: Program,
): { most(): number; end(): Promise<void> } {
  const store = createPool({ url: storeUrl, applicationName: 'emend test' });
  let most = 0;
  let isEnding = maxQueueBytes === null;
  const watching = (async () => {
    while (!isEnding) {
      const forms = await readForms({ config, store }).catch(() => undefined); // a server is away
      most = Math.max(most, forms?.byReference ?? 0);
      await sleep(100);
    }
  })();
  return {
    most: () => most,
    async end() {
      isEnding = true;
      await watching;
      await store.end();
    },
  };
}

function sweptRows(output: string): number {
  return output
    .split('\n')
    .filter((line) => line.includes('rows that were missing in the store are on the queue again'))
    .reduce((sum, line) => sum + Number(/"rows":(\d+)/.exec(line)?.[1] ?? 0), 0);
}

async function dropDatabases({ servers }: Bench, name: string): Promise<void> {
  const source = servers.source.url();
  await eventually(async () => {
    await query(
      source,
      `select pg_terminate_backend(active_pid) from pg_replication_slots where database = $1 and active`,
      [name],
    );
    await query(
      source,
      `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1`,
      [name],
    );
    await query(source, `drop database ${name} with (force)`);
  });
  await query(servers.store.url(), `drop database ${name} with (force)`);
}
