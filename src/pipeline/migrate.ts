/**
 * Brings both databases to what the configuration says.
 *
 * Promise: everything is checked before anything is changed; what is done in one database is one transaction; run twice, or
 * four times at once, the later ones change nothing.
 * If it breaks: a database is left half-made, or a slot keeps WAL for ever that nobody reads.
 */
import type { Pool, PoolClient } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { roleNotes } from '../log/roles.ts';
import { sqlState } from '../db/sqlstate.ts';
import type { Statement } from '../db/statement.ts';
import { EmendError } from '../errors.ts';
import { askForSweep } from '../sweep/marks.ts';
import { checkServers } from './check-servers.ts';
import { findTarget } from './find-target.ts';
import { withServers } from './connections.ts';
import { withQueue } from './install-queue.ts';
import { readInstall } from './install.ts';
import { migrationSteps } from './migration-steps.ts';
import type { Clients, MigrationStep, Side } from './migration-steps.ts';
import { makeSlots, planSlots } from './publications.ts';
import type { ReaderCount } from './readers.ts';

export interface PlannedStatement extends Statement {
  readonly database: Side;
}

export interface Migration {
  /** The id that slot, publication, roles and queue prefix carry. */
  readonly install: string;
  /** What was run, or with `print` what would be. */
  readonly statements: readonly PlannedStatement[];
  /** What somebody still has to do or to know. */
  readonly notes: readonly string[];
}

export interface MigrateOptions {
  readonly config: ResolvedConfig;
  /** Only say what would be run. */
  readonly print: boolean;
  /** Targets whose tables' rows are taken in as corrections. */
  readonly adopt?: readonly string[] | undefined;
}

/** @throws EmendError with every problem at once, and nothing changed */
export async function migrate(options: MigrateOptions): Promise<Migration> {
  const { config, print, adopt = [] } = options;
  for (const name of adopt) findTarget(config.targets, name);
  return withServers(config, { role: 'migrate', max: 2 }, (pools) =>
    withBoth(pools, (clients) => (print ? plan(config, clients, adopt) : run(config, clients, adopt))),
  );
}

/** Stands for the id of an install that is not made yet. */
const installToCome = 'xxxxxxxx';

async function plan(config: ResolvedConfig, clients: Clients, adopt: readonly string[]): Promise<Migration> {
  const targets = await checkServers(config, clients);
  const known = await readInstall(clients.source, 'source');
  const install = known ?? installToCome;
  const statements: PlannedStatement[] = [];
  for (const step of migrationSteps(targets, { adopt, ...config.capture })) {
    statements.push(...planned(step, await step.plan(clients, install)));
  }
  const notes =
    known === null ? [`${installToCome} stands for the id that the install gets when it runs`] : [];
  const slots = await planSlots(clients.source, install, countOf(config));
  return { install, statements: [...statements, ...ofSource(slots)], notes };
}

async function run(config: ResolvedConfig, clients: Clients, adopt: readonly string[]): Promise<Migration> {
  await lock(clients);
  const targets = await checkServers(config, clients);
  const steps = migrationSteps(targets, { adopt, ...config.capture });
  const statements = await inTransactions(clients, () => runSteps(steps, clients));
  const install = (await readInstall(clients.source, 'source'))!;
  // a slot waits for all transactions that are writing, so it cannot be made inside one; the publication has to be there
  const slots = await planSlots(clients.source, install, countOf(config));
  if (slots.length > 0) {
    await makeSlots(clients.source, install, countOf(config));
    // what was written while there was no slot, or was not read from one that is gone, is in no stream
    await askForSweep(clients.store);
  }
  // its own tables are made by BullMQ, now, so that the roles that run emend need no right to create them
  if (config.queue.redis === null) await withQueue(config, install, (queue) => queue.epoch());
  const notes = await roleNotes(clients.source, install);
  return { install, statements: [...statements, ...ofSource(slots)], notes };
}

/** Each step is planned when the steps before it are done: it sees what they made. */
async function runSteps(steps: readonly MigrationStep[], clients: Clients): Promise<PlannedStatement[]> {
  const done: PlannedStatement[] = [];
  for (const step of steps) {
    const install = await readInstall(clients.source, 'source');
    const statements = planned(step, await step.plan(clients, install ?? installToCome));
    for (const { sql, purpose } of statements) {
      await clients[step.database].query(sql).catch((error: unknown) => {
        throw explain(error, step.database, purpose);
      });
    }
    done.push(...statements);
  }
  return done;
}

function planned({ database }: MigrationStep, statements: readonly Statement[]): PlannedStatement[] {
  return statements.map(({ purpose, sql }) => ({ database, purpose, sql }));
}

function ofSource(statements: readonly Statement[]): PlannedStatement[] {
  return statements.map((statement) => ({ database: 'source', ...statement }));
}

function countOf({ capture, targets }: ResolvedConfig): ReaderCount {
  return { readers: capture.readers, targets: targets.map(({ name }) => name) };
}

/** One transaction in each database, also where both are the same: what one side makes, the other does not touch. */
async function inTransactions<T>({ source, store }: Clients, body: () => Promise<T>): Promise<T> {
  try {
    for (const client of [store, source]) {
      await client.query('begin');
      // a report that runs for an hour must not make everybody behind it wait for this one
      await client.query(`set local lock_timeout = '${lockTimeoutMs}ms'`);
    }
    const result = await body();
    // the store first: a log must not take rows that the store has no place for
    for (const client of [store, source]) await client.query('commit');
    return result;
  } catch (error) {
    for (const client of [store, source]) await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

const lockTimeoutMs = 10_000;

function explain(error: unknown, side: Side, purpose: string): unknown {
  const code = sqlState(error);
  const { message } = error as Error;
  if (code === '42501') {
    return new EmendError('permission_missing', `${side}.url: ${message} (${purpose})`, {
      remedy:
        'Run migrate as the owner of the tables, or show its statements with --print to whoever may run them.',
      cause: error,
    });
  }
  if (code === '55P03') {
    return new EmendError('timed_out', `${side}.url: a table is in use by somebody else (${purpose})`, {
      remedy:
        'Nothing has been changed. Run migrate again when the long transaction is over (see pg_stat_activity).',
      cause: error,
    });
  }
  return error;
}

/** Session locks, in one order for all; they end with the sessions. One database may be both sides, so each has its own. */
async function lock({ source, store }: Clients): Promise<void> {
  const sql = `select pg_advisory_lock(hashtextextended($1, 0))`;
  await source.query(sql, ['emend migrate source']);
  await store.query(sql, ['emend migrate store']);
}

/** Lends a session of each server, and ends both: locks and settings go with them. */
async function withBoth<T>(
  pools: Readonly<Record<Side, Pool>>,
  body: (clients: Clients) => Promise<T>,
): Promise<T> {
  const lent: PoolClient[] = [];
  try {
    const source = await pools.source.connect();
    lent.push(source);
    const store = await pools.store.connect();
    lent.push(store);
    return await body({ source, store });
  } finally {
    for (const client of lent) client.release(true);
  }
}
