import type { ClientBase } from 'pg';
import { closeWalsender, connectWalsender, createWalsender } from '../capture/walsender.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { connectError } from '../db/connect-error.ts';
import type { ErrorCode, Problem } from '../errors.ts';
import { settingOf } from './connections.ts';

/** The reader's connection has an entrance of its own: a pooler or pg_hba.conf may let queries in and not this one. */
export async function checkReplication(
  { source }: ResolvedConfig,
  queries: ClientBase,
): Promise<[ErrorCode, Problem[]]> {
  const path = source.replicationUrl === source.url ? 'source.url' : 'source.replicationUrl';
  const stream = createWalsender(source.replicationUrl);
  try {
    await connectWalsender(stream);
    return ['server_unsuitable', await refuseOtherDatabase(path, stream, queries)];
  } catch (error) {
    const { code, message, remedy } = connectError(error, settingOf(path, source.replicationUrl));
    const direct =
      'Where source.url goes through a pooler, set source.replicationUrl (REPLICATION_URL) to the server itself.';
    const problem = `no replication connection: ${message.slice(path.length + 2)}`;
    return [code, [{ path, problem, remedy: `${remedy} ${direct}` }]];
  } finally {
    await closeWalsender(stream);
  }
}

async function refuseOtherDatabase(
  path: string,
  stream: Pick<ClientBase, 'query'>,
  queries: ClientBase,
): Promise<Problem[]> {
  const [there, here] = [await databaseOf(stream), await databaseOf(queries)];
  if (there === here) return [];
  const problem = `leads to database ${there}, and source.url to ${here}`;
  return [{ path, problem, remedy: 'Let both lead to the same database.' }];
}

async function databaseOf(client: Pick<ClientBase, 'query'>): Promise<string> {
  const { rows } = await client.query<{ name: string }>('select current_database()::text as name');
  return rows[0]!.name;
}
