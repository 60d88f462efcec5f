import pg from 'pg';
import { connectError } from '../db/connect-error.ts';
import type { Problem } from '../errors.ts';
import type { Inspection } from './inspection.ts';
import { schema } from './postgres-schema.ts';

const path = 'store.url';

export async function inspectPostgres(url: string): Promise<Inspection> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    application_name: 'emend check',
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const { exists, usable, creatable } = await readRights(client);
    const problems: Problem[] = [];
    if (exists && !usable) {
      problems.push(
        problem(
          `the role may not use the schema ${schema}, where the queue is kept`,
          `Run as its owner: grant usage, create on schema ${schema} to <role>; grant all on all tables in schema ${schema} to <role>; grant all on all sequences in schema ${schema} to <role>.`,
        ),
      );
    }
    if (!exists && !creatable) {
      problems.push(
        problem(
          `the schema ${schema} for the queue does not exist and the role may not create it`,
          'Run `emend migrate` as the owner of the database, or name a Redis in queue.redis.',
        ),
      );
    }
    return { state: problems.length > 0 ? 'unfit' : 'fit', problems };
  } catch (error) {
    const { code, message, remedy } = connectError(error, { path, env: 'STORE_URL', url });
    return {
      state: code === 'connection_invalid' ? 'unfit' : 'away',
      problems: [problem(message.slice(`${path}: `.length), remedy)],
    };
  } finally {
    await client.end().catch(() => {});
  }
}

interface Rights {
  readonly exists: boolean;
  readonly usable: boolean;
  readonly creatable: boolean;
}

async function readRights(client: pg.Client): Promise<Rights> {
  const { rows } = await client.query<Rights>(
    `select n.oid is not null as exists,
            coalesce(has_schema_privilege(n.oid, 'usage'), false) as usable,
            has_database_privilege(current_database(), 'create') as creatable
     from (values ($1::text)) as wanted (name)
     left join pg_namespace n on n.nspname = wanted.name`,
    [schema],
  );
  return rows[0] ?? { exists: false, usable: false, creatable: false };
}

function problem(text: string, remedy: string): Problem {
  return { path, problem: text, remedy };
}
