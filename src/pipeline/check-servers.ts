/**
 * Everything that would make `migrate` fail half-way, asked before it changes anything.
 */
import type { ClientBase } from 'pg';
import { checkSource } from '../capture/check-source.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { EmendError, dispositionOf, isEmendError } from '../errors.ts';
import type { ErrorCode, Problem } from '../errors.ts';
import { inspectQueue } from '../queue/checks.ts';
import { codeOfState } from '../queue/inspection.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import type { Target } from '../change/target.ts';
import { checkReplication } from './check-replication.ts';
import { readInstall, readStoreSince } from './install.ts';
import type { Clients } from './migration-steps.ts';
import { queueHome, queuePrefix } from './install-queue.ts';
import { checkSurplus } from './publications.ts';
import { readersOf } from './readers.ts';

/**
 * The targets as the store has them, if nothing stands in the way.
 *
 * @throws EmendError with every problem of the configuration, the servers and the rights at once
 */
export async function checkServers(config: ResolvedConfig, { source, store }: Clients): Promise<Target[]> {
  const resolved = await resolveOrProblems(store, config);
  const install = (await readInstall(source, 'source')) ?? 'new';
  const found: [ErrorCode, readonly Problem[]][] = [
    ['target_invalid', resolved.problems],
    ['server_unsuitable', await checkSource(source, { slots: slotsOf(install, config) })],
    ['server_unsuitable', await checkSurplus(source, install, config.capture)],
    await checkReplication(config, source),
    ['server_unsuitable', await checkVersion(store)],
    ['server_unsuitable', await checkSameInstall(source, store)],
    ['permission_missing', await checkSchemaRight(source, 'source', 'corrections')],
    ['permission_missing', await checkSchemaRight(store, 'store', 'emend')],
    ['permission_missing', await checkTableRights(store, config)],
    ['permission_missing', await checkIndexRights(store, config)],
    await checkQueue(config, install),
  ];
  const problems = found.flatMap(([, each]) => each);
  const codes = found.filter(([, each]) => each.length > 0).map(([code]) => code);
  if (codes[0] === undefined) return resolved.targets;
  // a server that is away may come back; what has to be corrected stays
  const code = codes.find((each) => dispositionOf(each) === 'refuse') ?? codes[0];
  throw new EmendError(code, 'emend cannot be set up like this', {
    remedy: 'Correct what is said for each; nothing has been changed.',
    problems,
  });
}

function slotsOf(install: string, { capture }: ResolvedConfig): string[] {
  return readersOf(install, { readers: capture.readers, targets: [] }).map(({ slot }) => slot);
}

async function resolveOrProblems(
  store: ClientBase,
  { targets }: ResolvedConfig,
): Promise<{ targets: Target[]; problems: readonly Problem[] }> {
  try {
    return { targets: await resolveTargets(store, targets), problems: [] };
  } catch (error) {
    if (!isEmendError(error) || error.code !== 'target_invalid') throw error;
    return { targets: [], problems: error.problems };
  }
}

async function checkQueue(config: ResolvedConfig, install: string): Promise<[ErrorCode, readonly Problem[]]> {
  const { problems, state } = await inspectQueue(queueHome(config), queuePrefix(config, install));
  return state === 'fit' ? ['queue_unsuitable', []] : [codeOfState[state], problems];
}

/** `publish_via_partition_root` with row filters, and all that the store's functions use, came with 15. */
async function checkVersion(store: ClientBase): Promise<Problem[]> {
  const { rows } = await store.query<{ number: string; text: string }>(
    `select current_setting('server_version_num') as number, current_setting('server_version') as text`,
  );
  if (Number(rows[0]!.number) >= 150_000) return [];
  return [
    {
      path: 'store.url',
      problem: `PostgreSQL ${rows[0]!.text} is too old`,
      remedy: 'Use PostgreSQL 15 or newer.',
    },
  ];
}

async function checkSameInstall(source: ClientBase, store: ClientBase): Promise<Problem[]> {
  const inStore = await readInstall(store, 'store');
  const inSource = await readInstall(source, 'source');
  if (inStore === null) return inSource === null ? [] : checkFirstStore(source);
  if (inStore === inSource) return [];
  // the store is committed first: a first migrate that was killed in between leaves it with the id of a source that was never made
  const isUnused = inSource === null && !(await hasMarks(store));
  return [
    {
      path: 'store.url',
      problem: `this store belongs to install ${inStore}, and the source to ${inSource ?? 'none yet'}`,
      remedy:
        'A store is fed by one source: correct one of the URLs, or give this source a database of its own.' +
        (isUnused
          ? ' If the first migrate of both was interrupted: delete from emend.install in the store, where no worker has run yet, and run migrate again.'
          : ''),
    },
  ];
}

/** Whether a worker has ever run on this store: its sweep leaves a mark. */
async function hasMarks(store: ClientBase): Promise<boolean> {
  const { rows } = await store.query<{ any: string }>(`select exists (select from emend.sweep)::text as any`);
  return rows[0]!.any === 'true';
}

/** A second store would get the same id, and so take jobs and slot from the first. One that was restored or moved has the id already. */
async function checkFirstStore(source: ClientBase): Promise<Problem[]> {
  const since = await readStoreSince(source);
  if (since === null) return [];
  return [
    {
      path: 'store.url',
      problem: `this store is new, and the source has had another one since ${since}`,
      remedy:
        'A source feeds one store: correct one of the URLs, or give this store a source of its own. If that store is gone for good, or this source is a copy: update corrections._install set store_since = null in the source, and run migrate again.',
    },
  ];
}

/** Asked before a statement in the middle is refused for the want of it. */
async function checkSchemaRight(
  client: ClientBase,
  side: 'source' | 'store',
  schema: string,
): Promise<Problem[]> {
  const { rows } = await client.query<{ may: string; exists: string; user: string; database: string }>(
    `select coalesce(pg_has_role(n.nspowner, 'usage'),
                     has_database_privilege(current_database(), 'create'))::text as may,
            (n.oid is not null)::text as exists,
            current_user::text as user,
            current_database()::text as database
     from (values ($1::name)) as wanted (name)
     left join pg_namespace n on n.nspname = wanted.name`,
    [schema],
  );
  const { may, exists, user, database } = rows[0]!;
  if (may === 'true') return [];
  return [
    {
      path: `${side}.url`,
      problem:
        exists === 'true'
          ? `user ${user} does not own schema ${schema}`
          : `user ${user} may not create schema ${schema}`,
      remedy:
        exists === 'true'
          ? `Run migrate as the owner of schema ${schema}.`
          : `Run migrate as another user, or: grant create on database "${database}" to "${user}";`,
    },
  ];
}

/** emend adds its columns to the targets, which only an owner may do. */
async function checkTableRights(store: ClientBase, { targets }: ResolvedConfig): Promise<Problem[]> {
  const { rows } = await store.query<{ target: string; table: string; owner: string; user: string }>(
    `select wanted.target, c.oid::regclass::text as table, c.relowner::regrole::text as owner, current_user::text as user
     from unnest($1::text[], $2::text[], $3::text[]) as wanted (target, schema, name)
     join pg_namespace n on n.nspname = wanted.schema
     join pg_class c on c.relnamespace = n.oid and c.relname = wanted.name
     where not pg_has_role(c.relowner, 'usage')
     order by wanted.target`,
    [targets.map(({ name }) => name), targets.map(({ schema }) => schema), targets.map(({ table }) => table)],
  );
  return rows.map(({ target, table, owner, user }) => ({
    path: `targets.${target}`,
    problem: `${table} belongs to ${owner}, and user ${user} of store.url may not add columns to it`,
    remedy: `Run migrate as ${owner}, or: grant ${owner} to "${user}";`,
  }));
}

/** A target that is new gets an index, which takes the right to create in its schema, also for the owner of the table. */
async function checkIndexRights(store: ClientBase, { targets }: ResolvedConfig): Promise<Problem[]> {
  const { rows } = await store.query<{ target: string; schema: string; user: string }>(
    `select wanted.target, n.nspname as schema, current_user::text as user
     from unnest($1::text[], $2::text[], $3::text[]) as wanted (target, schema, name)
     join pg_namespace n on n.nspname = wanted.schema
     join pg_class c on c.relnamespace = n.oid and c.relname = wanted.name
     where not has_schema_privilege(n.oid, 'create')
       and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = '_version' and not a.attisdropped)
     order by wanted.target`,
    [targets.map(({ name }) => name), targets.map(({ schema }) => schema), targets.map(({ table }) => table)],
  );
  return rows.map(({ target, schema, user }) => ({
    path: `targets.${target}`,
    problem: `user ${user} of store.url may not create an index in schema ${schema}`,
    remedy: `Run migrate as the owner of the schema, or: grant create on schema "${schema}" to "${user}";`,
  }));
}
