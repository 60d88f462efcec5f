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
  /** The part of the transactions that it has; left out: any part is as wanted, and a new one has all. */
  readonly share?: Share;
}

/** One of several readers' part of the log: the transactions whose hash leaves `number - 1` when it is divided by `of`. */
export interface Share {
  /** From 1 on. */
  readonly number: number;
  readonly of: number;
}

/**
 * What is missing to the publication; nothing if it is as it should be. Tables of others in it are left alone.
 *
 * Inserts only: logs are append-only, and the application's own clean-up must not reach the store. Rows of backfills
 * are filtered out: they are read from the log when they are staged, so a load never stands in front of live rows. Control
 * tables, whose names begin with an underscore, are published whole.
 *
 * Where there are several readers, each has a publication of its own and a share of the transactions, by a hash of `_xid`: a
 * transaction goes whole to one of them (law 7), and each to one and only one. The hash is that of the server itself, which a row
 * filter may use from 15 on; a remainder of the number alone would not do, since a writer with a savepoint takes two numbers each time.
 *
 * @throws EmendError `server_unsuitable` for a publication of all tables, which cannot be put right.
 */
export async function planPublication(
  client: Client,
  { publication, targets, share }: PublicationPlan,
): Promise<Statement[]> {
  const standing = await readPublication(client, publication);
  const name = ident(replicationName(publication));
  if (!standing) return targets.length === 0 ? [] : [create(name, targets, share ?? whole)];
  if (standing.allTables) throw publishesEverything(publication);
  const statements: Statement[] = [];
  if (!standing.insertsOnly || !standing.viaRoot) {
    statements.push({
      purpose: `publication ${publication}: inserts only, partitions under their root's name`,
      sql: `alter publication ${name} set (${options})`,
    });
  }
  const isThere = (target: string): boolean => standing.filters.has(target);
  for (const target of targets.filter((each) => !isThere(each))) {
    statements.push({
      purpose: `publication ${publication}: log of ${target}`,
      sql: `alter publication ${name} add table ${filtered(target, share ?? whole)}`,
    });
  }
  const other = targets.filter(
    (target) => isThere(target) && !isAsWanted(target, standing.filters.get(target)!, share),
  );
  if (other.length > 0) {
    statements.push({
      purpose: `publication ${publication}: another row filter for ${other.join(', ')}`,
      sql: exchange(name, other, share ?? whole),
    });
  }
  return statements;
}

const whole: Share = { number: 1, of: 1 };

/**
 * Waits for whoever writes to the logs: rows of one transaction, some before and some after it, could go to two readers (law 7).
 * Locks are let go and asked for anew well within `deadlock_timeout`, which is a second: a writer that goes from one log to the
 * other and meets them waits for a moment, and is never the one whom a deadlock ends.
 */
function exchange(name: string, targets: readonly string[], share: Share): string {
  const logs = targets.map((target) => qualified(logSchema, target)).join(', ');
  return `do $filter$
declare
  given_up_at timestamptz := clock_timestamp() + interval '10 seconds';
  before text := current_setting('lock_timeout');
begin
  loop
    begin
      perform set_config('lock_timeout', '400ms', true);
      lock table ${logs} in share row exclusive mode;
      exit;
    exception when lock_not_available then
      if clock_timestamp() > given_up_at then raise; end if;
      perform pg_sleep(0.05);
    end;
  end loop;
  perform set_config('lock_timeout', before, true);
  alter publication ${name} drop table ${logs};
  alter publication ${name} add table ${targets.map((target) => filtered(target, share)).join(', ')};
end
$filter$`;
}

const options = `publish = 'insert', publish_via_partition_root = true`;

function create(name: string, targets: readonly string[], share: Share): Statement {
  const ofShare = share.of === 1 ? '' : `, share ${share.number} of ${share.of}`;
  const tables = targets.map((target) => filtered(target, share));
  return {
    purpose: `publication of the live rows of all logs${ofShare}`,
    sql: `create publication ${name} for table\n  ${tables.join(',\n  ')}\nwith (${options})`,
  };
}

function isControlTable(log: string): boolean {
  return log.startsWith('_');
}

function filtered(log: string, share: Share): string {
  const table = qualified(logSchema, log);
  return isControlTable(log) ? table : `${table} where (${conditionOf(share)})`;
}

/** The last eight bits of the hash: a remainder of a negative number would be negative. */
function conditionOf({ number, of }: Share): string {
  const live = '_backfill is null';
  if (of === 1) return live;
  return `${live} and (hash_record_extended(row(_xid), 0) & 255) % ${of} = ${number - 1}`;
}

const anyShare = bare('_backfill is null and (hash_record_extended(row(_xid), 0) & 255) % 0 = 0');

/** A list of columns makes it another one. */
function isAsWanted(log: string, filter: string, share: Share | undefined): boolean {
  if (isControlTable(log)) return filter === '';
  const standing = bare(filter);
  if (share) return standing === bare(conditionOf(share));
  return standing === bare(conditionOf(whole)) || standing.replaceAll(/(%|=)\d+/g, '$10') === anyShare;
}

/** Without what `pg_get_expr` prints and we do not write. */
function bare(filter: string): string {
  return filter.toLowerCase().replaceAll(/::bigint|[()"\s]/g, '');
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
 * without its rows. It may have whatever share: while a number of readers changes, those that run go on.
 */
export async function requirePublication(
  client: Client,
  plan: Omit<PublicationPlan, 'share'>,
): Promise<void> {
  const missing = await planPublication(client, plan);
  if (missing.length === 0) return;
  throw new EmendError(
    'publication_missing',
    `publication ${plan.publication} is not as migrated: ${missing.map((statement) => statement.purpose).join('; ')}`,
    {
      remedy:
        'Run `emend migrate`, then start the reader again. If the number of readers was changed (capture.readers), give this one the configuration that was migrated instead.',
    },
  );
}
