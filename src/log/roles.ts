import type { ClientBase } from 'pg';
import { ident, identList, literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { logTable } from './log-columns.ts';

/** Roles are cluster-wide, so they carry the id of the install. */
export function roleNames(installId: string): { writer: string; reader: string } {
  return { writer: `emend_writer_${installId}`, reader: `emend_reader_${installId}` };
}

/**
 * Two roles of the source, to be granted to whoever writes and reads the logs; what stands already is left out.
 *
 * A writer states its own columns, `_op`, `_backfill` and `_reason`, and nothing else: an `_id` of its own would win for
 * ever, an `_xid` of its own would hide from the sweep. Of what is there it may read the `_id`s, for `returning _id`.
 */
export async function planRoles(
  source: ClientBase,
  installId: string,
  targets: readonly Target[],
): Promise<Statement[]> {
  const names = roleNames(installId);
  const rights = await readRights(source, names);
  const statements: Statement[] = [];
  for (const kind of kinds) {
    if (!rights[kind] && !rights.createRoles) continue;
    if (!rights[kind]) statements.push(...createRole(kind, names[kind]));
    if (kind === 'reader' && !rights.readerReplicates && rights.grantReplication) {
      statements.push({ purpose: 'the reader streams changes', sql: replication(names.reader) });
    }
    const grants =
      kind === 'writer' ? writerGrants(names.writer, targets) : readerGrants(names.reader, targets);
    statements.push(...(await missingGrants(source, names[kind], grants)));
  }
  return statements;
}

/** What the migrating user may not do for the roles, each with the statement to have run by somebody who may. */
export async function roleNotes(source: ClientBase, installId: string): Promise<string[]> {
  const names = roleNames(installId);
  const rights = await readRights(source, names);
  const missing = kinds.filter((kind) => !rights[kind] && !rights.createRoles);
  return [
    ...missing.map(
      (kind) =>
        `You may not create roles. Have somebody run: create role ${names[kind]} nologin; then run emend migrate again.`,
    ),
    ...(rights.readerReplicates || rights.grantReplication
      ? []
      : [
          `You may not grant REPLICATION. Have a superuser run: ${replication(names.reader)}; or let the reader connect as a role that has it.`,
        ]),
  ];
}

const kinds = ['writer', 'reader'] as const;

function replication(reader: string): string {
  return `alter role ${ident(reader)} replication`;
}

interface Rights {
  /** Whether the role exists. */
  readonly writer: boolean;
  readonly reader: boolean;
  readonly readerReplicates: boolean;
  readonly createRoles: boolean;
  readonly grantReplication: boolean;
}

/** REPLICATION is granted by superusers; from 16 on also by a role with CREATEROLE that has it itself. */
async function readRights(
  source: ClientBase,
  { writer, reader }: { writer: string; reader: string },
): Promise<Rights> {
  const { rows } = await source.query<{ rights: string }>(
    `select jsonb_build_object(
       'writer', exists (select from pg_roles r where r.rolname = $1),
       'reader', exists (select from pg_roles r where r.rolname = $2),
       'readerReplicates', exists (select from pg_roles r where r.rolname = $2 and r.rolreplication),
       'createRoles', me.rolsuper or me.rolcreaterole,
       'grantReplication', me.rolsuper or (me.rolcreaterole and me.rolreplication
                                           and current_setting('server_version_num')::integer >= 160000)
     )::text as rights
     from pg_roles me
     where me.rolname = current_user`,
    [writer, reader],
  );
  return JSON.parse(rows[0]!.rights) as Rights;
}

function createRole(kind: 'writer' | 'reader', name: string): Statement[] {
  const use =
    kind === 'writer'
      ? 'Writes corrections for emend: grant it to the role that the application connects as.'
      : 'Reads the logs for emend: give it a login, or grant it to a login that has REPLICATION itself (memberships do not pass that on).';
  return [
    { purpose: `role of ${kind}s`, sql: `create role ${ident(name)} nologin` },
    { purpose: `what the role is for`, sql: `comment on role ${ident(name)} is ${literal(use)}` },
  ];
}

interface Grant {
  readonly purpose: string;
  readonly sql: string;
  /** What the role may do where the grant stands. */
  readonly standing:
    | { table: string; columns: readonly string[]; privilege: string }
    | { schema: string }
    | { sequence: string }
    | { callable: string };
}

function writerGrants(role: string, targets: readonly Target[]): Grant[] {
  const to = ident(role);
  return [
    ...baseGrants(role),
    {
      purpose: 'writers draw the ids of their rows',
      sql: `grant usage on sequence corrections._id to ${to}`,
      standing: { sequence: 'corrections._id' },
    },
    ...backfillFunctions.map((name) => ({
      purpose: 'writers ask for backfills',
      sql: `grant execute on function ${name} to ${to}`,
      standing: { callable: name },
    })),
    ...targets.flatMap((target) => {
      const columns = [...statedColumns(target).map(({ name }) => name), '_op', '_backfill', '_reason'];
      const table = logTable(target);
      return [
        {
          purpose: `writers of ${target.name}`,
          sql: `grant insert (${identList(columns)}) on ${table} to ${to}`,
          standing: { table, columns, privilege: 'insert' },
        },
        {
          purpose: `writers of ${target.name} learn the ids of their rows`,
          sql: `grant select (_id) on ${table} to ${to}`,
          standing: { table, columns: ['_id'], privilege: 'select' },
        },
      ];
    }),
  ];
}

/** What a writer may ask of a backfill. The functions hold the rules, so that nobody writes the control tables. */
const backfillFunctions = [
  'corrections.open_backfill(text, text[], text, text, jsonb, jsonb, jsonb)',
  'corrections.chunk_backfill(text, text, bigint, bigint, jsonb)',
  'corrections.seal_backfill(text, text)',
  'corrections.promote_backfill(text, text, jsonb, timestamptz, boolean)',
  'corrections.revert_backfill(text, text)',
  'corrections.abandon_backfill(text, text)',
  'corrections.forget_backfill(text)',
  'corrections.restate_backfill(text, text[], text, text, jsonb, jsonb, jsonb)',
];

const controlTables = [
  '_install',
  '_backfill',
  '_request',
  '_backfill_state',
  '_archive',
  '_archive_block',
  '_migration',
];

function readerGrants(role: string, targets: readonly Target[]): Grant[] {
  const tables = [...controlTables.map((name) => `corrections.${name}`), ...targets.map(logTable)];
  return [
    ...baseGrants(role),
    ...tables.map((table) => ({
      purpose: 'readers read logs and control tables',
      sql: `grant select on ${table} to ${ident(role)}`,
      standing: { table, columns: [], privilege: 'select' },
    })),
  ];
}

function baseGrants(role: string): Grant[] {
  return [
    {
      purpose: 'names in schema corrections',
      sql: `grant usage on schema corrections to ${ident(role)}`,
      standing: { schema: 'corrections' },
    },
  ];
}

async function missingGrants(
  source: ClientBase,
  role: string,
  grants: readonly Grant[],
): Promise<Statement[]> {
  const missing: Statement[] = [];
  for (const { purpose, sql, standing } of grants) {
    if (!(await stands(source, role, standing))) missing.push({ purpose, sql });
  }
  return missing;
}

/** A plan may be asked for before anything exists: what does not, gives null, and an unknown role no row. */
async function stands(source: ClientBase, role: string, standing: Grant['standing']): Promise<boolean> {
  const check = privilegeCheck(standing);
  const { rows } = await source.query<{ stands: string }>(
    `select coalesce(${check.sql}, false)::text as stands from pg_roles r where r.rolname = $1`,
    [role, ...check.parameters],
  );
  return rows[0]?.stands === 'true';
}

function privilegeCheck(standing: Grant['standing']): { sql: string; parameters: unknown[] } {
  if ('schema' in standing) {
    return {
      sql: `has_schema_privilege(r.oid, to_regnamespace($2), 'usage')`,
      parameters: [standing.schema],
    };
  }
  if ('sequence' in standing) {
    return {
      sql: `has_sequence_privilege(r.oid, to_regclass($2), 'usage')`,
      parameters: [standing.sequence],
    };
  }
  if ('callable' in standing) {
    return {
      sql: `has_function_privilege(r.oid, to_regprocedure($2), 'execute')`,
      parameters: [standing.callable],
    };
  }
  if (standing.columns.length === 0) {
    return {
      sql: `has_table_privilege(r.oid, to_regclass($2), $3)`,
      parameters: [standing.table, standing.privilege],
    };
  }
  return {
    sql: `(select count(*) = cardinality($3::text[]) from pg_attribute a
      where a.attrelid = to_regclass($2) and a.attname = any ($3::text[]) and not a.attisdropped
        and has_column_privilege(r.oid, a.attrelid, a.attnum, $4))`,
    parameters: [standing.table, standing.columns, standing.privilege],
  };
}
