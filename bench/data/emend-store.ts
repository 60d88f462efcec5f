import type { Pool } from 'pg';
import type { Handle } from '../../src/change/ports.ts';
import type { TargetDeclaration } from '../../src/config/target-declaration.ts';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { createMerge, mergeSessions } from '../../src/merge/merge.ts';
import { startClock } from '../../src/store/clock.ts';
import type { Clock } from '../../src/store/clock.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { createStore, silentLog } from '../../test/support/store.ts';
import type { BenchServer } from '../harness/server.ts';

/** A target with the data of the beginning. */
export interface Layout {
  /** Contestants with the same layout get copies of the same files. */
  readonly name: string;
  readonly ddl: string;
  readonly declaration: TargetDeclaration;
  /** Statements that fill the target, and what emend has beside it, as merges would have left them. */
  readonly load: readonly string[];
}

export interface EmendStore {
  readonly pool: Pool;
  readonly handle: Handle;
  /** Starts the clock that a worker runs beside the merge. It commits all the time, so it rests while others are measured. */
  startClock(): Clock;
  readonly close: () => Promise<void>;
}

/** A copy of the layout, with the merge that a worker of `emend start` runs. */
export async function openEmendStore(server: BenchServer, layout: Layout): Promise<EmendStore> {
  const url = await server.copyOf(layout.name, (template) => fill(template, layout));
  const pool = createPool({ url, applicationName: 'emend bench', ...mergeSessions });
  const targets = await withClient(pool, (client) => resolveTargets(client, [layout.declaration]));
  const handle = await createMerge({ pool, targets, log: silentLog });
  return {
    pool,
    handle,
    startClock: () => startClock(pool, silentLog),
    close: async () => {
      await pool.end();
      await server.drop(url);
    },
  };
}

/** Makes the database that contestants get copies of. */
export async function fill(url: string, { ddl, declaration, load }: Layout): Promise<void> {
  const { pool } = await createStore(url, ddl, [declaration]);
  try {
    const table = `public.${declaration.table}`;
    // a constraint over what is there is checked once, instead of row by row
    const { rows: guards } = await pool.query<{ name: string; definition: string }>(
      `select conname as name, pg_get_constraintdef(oid) as definition
       from pg_constraint where conrelid = $1::regclass and contype = 'x'`,
      [table],
    );
    for (const { name } of guards) await pool.query(`alter table ${table} drop constraint ${name}`);
    for (const statement of load) await pool.query(statement);
    for (const { name, definition } of guards)
      await pool.query(`alter table ${table} add constraint ${name} ${definition}`);
    await pool.query('vacuum (analyze)');
  } finally {
    await pool.end();
  }
}

/** Law 6 is part of the work: every row of the beginning has been merged once. */
export function ledgerOf(target: string, rows: number): string {
  return `
    insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _actor)
    select id, '${target}', timestamptz '2026-01-01' + id * interval '1 microsecond', id::bigint * 7919,
      timestamptz '2026-01-01', 'bench'
    from generate_series(1, ${rows}) id`;
}

/** @throws unless the ledger has so many rows, up to the last */
export async function expectLedger(
  pool: Pool,
  expected: { readonly rows: number; readonly lastId: number },
): Promise<void> {
  const { rows } = await pool.query<{ count: string; last: string }>(
    `select count(*) as count, max(_id) as last from emend.ledger`,
  );
  if (rows[0]?.count === String(expected.rows) && rows[0].last === String(expected.lastId)) return;
  throw new Error(
    `the ledger has ${rows[0]?.count} rows up to ${rows[0]?.last}, and not ${expected.rows} up to ${expected.lastId}`,
  );
}
