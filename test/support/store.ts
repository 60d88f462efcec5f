import { pendingMigrations } from '../../src/db/migrations.ts';
import { createPool } from '../../src/db/pool.ts';
import type { Batch, LogRows } from '../../src/change/batch.ts';
import type { Handle, Log } from '../../src/change/ports.ts';
import { statedColumns } from '../../src/change/target.ts';
import type { Target } from '../../src/change/target.ts';
import type { TargetDeclaration } from '../../src/config/target-declaration.ts';
import { withClient } from '../../src/db/transaction.ts';
import { createMerge, mergeSessions } from '../../src/merge/merge.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { planStore } from '../../src/store/store.ts';
import type { Pool } from 'pg';

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

export interface StoreUnderTest {
  readonly pool: Pool;
  readonly targets: readonly Target[];
  readonly handle: Handle;
}

/** A migrated store with the given tables, and a merge into it: the real SQL, without capture and queue. */
export async function createStore(
  url: string,
  ddl: string,
  declarations: readonly (Partial<TargetDeclaration> & Pick<TargetDeclaration, 'name' | 'kind' | 'key'>)[],
  options: { connections?: number; log?: Log; adopt?: boolean } = {},
): Promise<StoreUnderTest> {
  const pool = createPool({
    url,
    applicationName: 'emend test',
    max: options.connections ?? 4,
    ...mergeSessions,
  });
  await pool.query(ddl);
  await pool.query('create schema if not exists emend');
  for (const { sql } of await withClient(pool, (client) => pendingMigrations(client, 'store')))
    await pool.query(sql);
  const targets = await withClient(pool, async (client) => {
    const resolved = await resolveTargets(client, declarations.map(complete));
    for (const target of resolved) {
      for (const statement of await planStore(client, target, { adopt: options.adopt === true }))
        await client.query(statement.sql);
    }
    return resolved;
  });
  const handle = await createMerge({ pool, targets, log: options.log ?? silentLog });
  return { pool, targets, handle };
}

function complete(
  declaration: Partial<TargetDeclaration> & Pick<TargetDeclaration, 'name' | 'kind' | 'key'>,
): TargetDeclaration {
  return {
    schema: 'public',
    table: declaration.name,
    period: null,
    eventTime: null,
    version: null,
    exclusion: false,
    allow: [],
    ...declaration,
  };
}

export interface TestRow {
  readonly _id: number | string;
  readonly _op?: string;
  readonly [column: string]: unknown;
}

/** Log rows as capture would hand them over: column-wise text. */
export function logRows(target: Target, rows: readonly TestRow[]): LogRows {
  const columns = [
    ...statedColumns(target).map((column) => column.name),
    '_id',
    '_op',
    '_nonce',
    '_recorded_at',
    '_actor',
    '_reason',
  ];
  const defaults: Record<string, string> = {
    _op: 'upsert',
    _nonce: '7',
    _recorded_at: '2026-01-01 00:00:00+00',
    _actor: 'tester',
  };
  const text = (row: TestRow, column: string) => {
    const value = row[column] ?? defaults[column] ?? null;
    return value === null ? null : String(value);
  };
  return {
    target: target.name,
    columns,
    values: columns.map((column) => rows.map((row) => text(row, column))),
  };
}

export function batchOf(...parts: LogRows[]): Batch {
  const rows = parts.reduce((sum, part) => sum + (part.values[0]?.length ?? 0), 0);
  return { id: 'b-test', parts, rows, bytes: 0, endLsn: 0n, committedAtMs: 0 };
}

export const noAbort = new AbortController().signal;
