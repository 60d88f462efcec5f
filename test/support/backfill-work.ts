import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { createPool } from '../../src/db/pool.ts';
import { isEmendError } from '../../src/errors.ts';
import { mergeSettings } from '../../src/merge/merge.ts';
import { carryOutRequests, readRequests } from './backfill-requests.ts';
import type { WorkerTask } from './backfill-requests.ts';
import { eventually } from './eventually.ts';
import type { Install } from './install.ts';

/** Carries out all that was asked of a backfill, or only what was asked last, once. With connections of its own, as a worker. */
export async function carryOutOnce(
  { source, config }: Install,
  backfill: string,
  which: 'all' | 'last' = 'all',
): Promise<void> {
  const store = createPool({ url: config.store.url, applicationName: 'emend test', settings: mergeSettings });
  try {
    const requests = await readRequests(source, backfill);
    await carryOutRequests(
      { source, store },
      config.targets,
      which === 'all' ? requests : requests.slice(-1),
    );
  } finally {
    await store.end();
  }
}

/** The same, until nothing is in the way any more. */
export async function carryOutAll(install: Install, backfill: string): Promise<void> {
  const failure = await eventually(async () => {
    try {
      await carryOutOnce(install, backfill);
    } catch (error) {
      if (isEmendError(error) && error.disposition === 'retry') throw error;
      return error;
    }
    return undefined;
  });
  if (failure !== undefined) throw failure as Error;
}

/** A process that carries out the requests of a backfill, and can be killed. */
export function startWorkerProcess({ config }: Install, backfill: string): ChildProcess {
  const task: WorkerTask = {
    sourceUrl: config.source.url,
    storeUrl: config.store.url,
    targets: config.targets,
    backfill,
  };
  const program = [
    'node_modules/jiti/lib/jiti-cli.mjs',
    'test/support/backfill-worker.ts',
    JSON.stringify(task),
  ];
  const child = spawn(process.execPath, program, { stdio: ['ignore', 'ignore', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

/** Whether some process has the session lock of a backfill. */
export async function hasSession({ store }: Pick<Install, 'store'>, backfill: string): Promise<boolean> {
  const { rows } = await store.query(
    `select from pg_locks
     where locktype = 'advisory' and classid = ${0x656e0000} and objid = (hashtext($1)::bigint & 4294967295)::oid
       and database = (select oid from pg_database where datname = current_database())`,
    [backfill],
  );
  return rows.length > 0;
}

/** Where a worker is stopped: by a trigger of ours, at a statement on a table. */
export interface Stop {
  readonly table: string;
  readonly on?: 'insert' | 'update';
  /** SQL: whether this is the time. */
  readonly when?: string;
}

export interface Stopped {
  /** Resolves when somebody stands at the stop. */
  reached(): Promise<void>;
  /** Lets him go on, and whoever comes later. */
  release(): Promise<void>;
}

/** Stops whoever comes to a point in the store, until the test lets him go on. */
export async function stopAt(
  install: Install,
  { table, on = 'insert', when = 'true' }: Stop,
): Promise<Stopped> {
  const { store, config } = install;
  const holder = new pg.Client({ connectionString: config.store.url });
  await holder.connect();
  await holder.query(`select pg_advisory_lock(42)`);
  await store.query(
    `create or replace function public.stop_here() returns trigger language plpgsql as
     $$ begin if ${when} then perform pg_advisory_xact_lock_shared(42); end if; return null; end $$`,
  );
  await store.query(
    `create trigger stop_here after ${on} on ${table} for each statement execute function public.stop_here()`,
  );
  let isReleased = false;
  const release = async (): Promise<void> => {
    if (isReleased) return;
    isReleased = true;
    await holder.end();
    await store.query(`drop trigger stop_here on ${table}`);
  };
  onTestFinished(release);
  return {
    reached: () =>
      eventually(async () => {
        const { rows } = await store.query<{ waiting: string }>(
          `select count(*)::text as waiting from pg_locks
           where locktype = 'advisory' and classid = 0 and objid = 42 and not granted
             and database = (select oid from pg_database where datname = current_database())`,
        );
        if (rows[0]!.waiting === '0') throw new Error(`nobody came to ${table}`);
      }),
    release,
  };
}

/** Another transaction that holds the lock of a fence, as one does that takes the fence of a dead process away. */
export async function holdLockOfFence({ store, config }: Install, holder: string): Promise<Stopped> {
  const session = new pg.Client({ connectionString: config.store.url });
  await session.connect();
  await session.query('begin');
  await session.query(`select pg_advisory_xact_lock(${0x656e0001}, hashtext($1))`, [holder]);
  let ended: Promise<void> | undefined;
  const release = (): Promise<void> => (ended ??= session.end());
  onTestFinished(release);
  return {
    reached: () =>
      eventually(async () => {
        const { rows } = await store.query(
          `select from pg_locks
           where locktype = 'advisory' and classid = ${0x656e0001} and not granted
             and database = (select oid from pg_database where datname = current_database())`,
        );
        if (rows.length === 0) throw new Error(`nobody waits for the lock of ${holder}`);
      }),
    release,
  };
}
