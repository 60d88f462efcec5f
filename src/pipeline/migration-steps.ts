import type { ClientBase } from 'pg';
import type { Target } from '../change/target.ts';
import { literal } from '../db/identifier.ts';
import { pendingMigrations } from '../db/migrations.ts';
import type { Side } from '../db/migrations.ts';
import type { Statement } from '../db/statement.ts';
import { planLog } from '../log/log.ts';
import { planRoles } from '../log/roles.ts';
import { planStore } from '../store/store.ts';
import { readInstall, readStoreSince } from './install.ts';
import { planPublications } from './publications.ts';

export type { Side } from '../db/migrations.ts';

export type Clients = Readonly<Record<Side, ClientBase>>;

/** A part of a migration: what its database lacks, by its catalogue. No statements: nothing to do. */
export interface MigrationStep {
  readonly database: Side;
  plan(clients: Clients, install: string): Promise<Statement[]>;
}

/** In the order in which they build upon each other. The store's table comes before the log that feeds it. */
export function migrationSteps(
  targets: readonly Target[],
  { adopt, readers }: { readonly adopt: readonly string[]; readonly readers: number },
): MigrationStep[] {
  const names = targets.map(({ name }) => name);
  return [
    { database: 'source', plan: ({ source }) => pendingMigrations(source, 'source') },
    { database: 'store', plan: ({ store }) => pendingMigrations(store, 'store') },
    { database: 'store', plan: ({ store }, install) => planInstall(store, install) },
    { database: 'source', plan: ({ source }) => planStoreSince(source) },
    ...targets.flatMap((target): MigrationStep[] => [
      {
        database: 'store',
        plan: ({ store }) => planStore(store, target, { adopt: adopt.includes(target.name) }),
      },
      { database: 'source', plan: ({ source, store }) => planLog(source, store, target) },
    ]),
    { database: 'source', plan: ({ source }, install) => planRoles(source, install, targets) },
    {
      database: 'source',
      plan: ({ source }, install) => planPublications(source, install, { readers, targets: names }),
    },
  ];
}

/** The store takes the id that the source was given: it belongs to that source from now on. */
async function planInstall(store: ClientBase, install: string): Promise<Statement[]> {
  if ((await readInstall(store, 'store')) !== null) return [];
  const sql = `insert into emend.install (id) values (${literal(install)})`;
  return [{ purpose: 'the install that this store belongs to', sql }];
}

/** Another store that is new is refused from now on (`check-servers.ts`). */
async function planStoreSince(source: ClientBase): Promise<Statement[]> {
  if (!(await lacksStore(source))) return [];
  const sql = `update corrections._install set store_since = now() where store_since is null`;
  return [{ purpose: 'that a store belongs to this source', sql }];
}

async function lacksStore(source: ClientBase): Promise<boolean> {
  if ((await readInstall(source, 'source')) === null) return true; // still to be made
  return (await readStoreSince(source)) === null;
}
