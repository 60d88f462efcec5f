import type { ClientBase, Pool } from 'pg';
import type { Target } from '../../src/change/target.ts';
import type { TargetDeclaration } from '../../src/config/target-declaration.ts';
import { pendingMigrations } from '../../src/db/migrations.ts';
import { createPool } from '../../src/db/pool.ts';
import type { Statement } from '../../src/db/statement.ts';
import { withClient } from '../../src/db/transaction.ts';
import { planLog } from '../../src/log/log.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import type { Databases } from './databases.ts';

export type Declaration = Partial<TargetDeclaration> & Pick<TargetDeclaration, 'name' | 'kind' | 'key'>;

export interface SourceUnderTest {
  readonly source: Pool;
  readonly store: Pool;
  readonly targets: readonly Target[];
}

/** Logs in the source for tables in the store: the real statements, without the rest of a migration. */
export async function createSource(
  databases: Databases,
  ddl: string,
  declarations: readonly Declaration[],
): Promise<SourceUnderTest> {
  const source = createPool({ url: databases.sourceUrl, applicationName: 'emend test' });
  const store = createPool({ url: databases.storeUrl, applicationName: 'emend test' });
  await store.query(ddl);
  await withClient(source, async (client) => apply(client, await pendingMigrations(client, 'source')));
  const targets = await readTargets(store, declarations);
  for (const target of targets) await migrateLog({ source, store }, target);
  return { source, store, targets };
}

export function readTargets(store: Pool, declarations: readonly Declaration[]): Promise<Target[]> {
  return withClient(store, (client) =>
    resolveTargets(
      client,
      declarations.map((declaration) => ({
        schema: 'public',
        table: declaration.name,
        period: null,
        eventTime: null,
        version: null,
        exclusion: false,
        allow: [],
        ...declaration,
      })),
    ),
  );
}

export function planOf(
  { source, store }: Pick<SourceUnderTest, 'source' | 'store'>,
  target: Target,
): Promise<Statement[]> {
  return withClient(source, (one) => withClient(store, (other) => planLog(one, other, target)));
}

/** Plans and runs. */
export async function migrateLog(
  pools: Pick<SourceUnderTest, 'source' | 'store'>,
  target: Target,
): Promise<Statement[]> {
  const statements = await planOf(pools, target);
  await withClient(pools.source, (client) => apply(client, statements));
  return statements;
}

export async function apply(client: ClientBase | Pool, statements: readonly Statement[]): Promise<void> {
  for (const { sql } of statements) await client.query(sql);
}
