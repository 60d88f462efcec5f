import type { ClientBase } from 'pg';
import { ident, literal, qualified } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import { EmendError } from '../errors.ts';
import { logSchema, replicationName } from './names.ts';

/** Replication connections know no parameters, so the statements here are built with literals. */
type Client = Pick<ClientBase, 'query'>;

interface PublicationPlan {
  readonly publication: string;
  /** Names of log tables in schema `corrections`. */
  readonly targets: readonly string[];
}

/**
 * What is missing to the publication; nothing if it is as it should be. Tables of others in it are left alone.
 *
 * Inserts only: logs are append-only, and the application's own clean-up must not reach the store. Rows of backfills
 * are filtered out: they are read from the log when they are staged, so a load never stands in front of live rows. Control
 * tables, whose names begin with an underscore, are published whole.
 *
 * @throws EmendError `server_unsuitable` for a publication of all tables, which cannot be put right.
 */
export async function planPublication(
  client: Client,
  { publication, targets }: PublicationPlan,
): Promise<Statement[]> {
  const standing = await readPublication(client, publication);
  const name = ident(replicationName(publication));
  if (!standing) return targets.length === 0 ? [] : [create(name, targets)];
  if (standing.allTables) throw publishesEverything(publication);
  const statements: Statement[] = [];
  if (!standing.insertsOnly || !standing.viaRoot) {
    statements.push({
      purpose: `publication ${publication}: inserts only, partitions under their root's name`,
      sql: `alter publication ${name} set (${options})`,
    });
  }
  for (const target of targets) {
    const filter = standing.filters.get(target);
    if (filter !== undefined && isAsWanted(target, filter)) continue;
    if (filter !== undefined) {
      statements.push({
        purpose: `publication ${publication}: another row filter for ${target}`,
        sql: `alter publication ${name} drop table ${qualified(logSchema, target)}`,
      });
    }
    statements.push({
      purpose: `publication ${publication}: log of ${target}`,
      sql: `alter publication ${name} add table ${filtered(target)}`,
    });
  }
  return statements;
}

const options = `publish = 'insert', publish_via_partition_root = true`;

function create(name: string, targets: readonly string[]): Statement {
  return {
    purpose: 'publication of the live rows of all logs',
    sql: `create publication ${name} for table\n  ${targets.map(filtered).join(',\n  ')}\nwith (${options})`,
  };
}

function isControlTable(log: string): boolean {
  return log.startsWith('_');
}

function filtered(log: string): string {
  const table = qualified(logSchema, log);
  return isControlTable(log) ? table : `${table} where (_backfill is null)`;
}

/** How `pg_get_expr` prints the filter; a list of columns makes it another one. */
function isAsWanted(log: string, filter: string): boolean {
  if (isControlTable(log)) return filter === '';
  return filter.replaceAll(/[()"]/g, '').trim().toLowerCase() === '_backfill is null';
}

interface Standing {
  readonly allTables: boolean;
  readonly insertsOnly: boolean;
  readonly viaRoot: boolean;
  /** Row filter of each log table in it, as text. */
  readonly filters: ReadonlyMap<string, string>;
}

async function readPublication(client: Client, publication: string): Promise<Standing | undefined> {
  const name = literal(replicationName(publication));
  const found = await client.query<{ info: string }>(
    `select jsonb_build_object(
       'allTables', p.puballtables,
       'insertsOnly', p.pubinsert and not (p.pubupdate or p.pubdelete or p.pubtruncate),
       'viaRoot', p.pubviaroot)::text as info
     from pg_publication p
     where p.pubname = ${name}`,
  );
  const info = found.rows[0]?.info;
  if (info === undefined) return undefined;
  const tables = await client.query<{ name: string; filter: string }>(
    `select c.relname::text as name,
            coalesce(pg_get_expr(r.prqual, r.prrelid), '')
              || case when r.prattrs is null then '' else ' and only some columns' end as filter
     from pg_publication_rel r
     join pg_publication p on p.oid = r.prpubid
     join pg_class c on c.oid = r.prrelid
     join pg_namespace n on n.oid = c.relnamespace
     where p.pubname = ${name} and n.nspname = ${literal(logSchema)}
     order by c.relname`,
  );
  return {
    ...(JSON.parse(info) as Omit<Standing, 'filters'>),
    filters: new Map(tables.rows.map((row) => [row.name, row.filter])),
  };
}

function publishesEverything(publication: string): EmendError {
  return new EmendError(
    'server_unsuitable',
    `publication ${publication} publishes all tables of the database`,
    {
      remedy: `Drop it (drop publication ${publication}) and run \`emend migrate\`, which creates it for the logs alone.`,
    },
  );
}

/**
 * What the reader checks before every start: PostgreSQL 15 to 17 stop for ever at a missing publication, 18 goes on
 * without its rows.
 */
export async function requirePublication(client: Client, plan: PublicationPlan): Promise<void> {
  const missing = await planPublication(client, plan);
  if (missing.length === 0) return;
  throw new EmendError(
    'publication_missing',
    `publication ${plan.publication} is not as migrated: ${missing.map((statement) => statement.purpose).join('; ')}`,
    { remedy: 'Run `emend migrate`, then start the reader again.' },
  );
}
