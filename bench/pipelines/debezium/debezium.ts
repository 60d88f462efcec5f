import { execFile, execFileSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Stream, Writing } from '../../data/stream.ts';
import type { Contestant } from '../../harness/contestant.ts';
import { startProgram } from '../program.ts';
import { programmed } from '../programmed.ts';
import { createWriter, databaseOf, insertInto, openPlace, plainLogDdl } from '../writer.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const built = fileURLToPath(new URL('../../../.emend/bench-debezium', import.meta.url));

/** Debezium needs Java 17 and Maven, which CI does not have and the bench does not install. */
export function hasJava(): boolean {
  if (process.env['CI'] !== undefined) return false;
  try {
    for (const [command, ...args] of [
      ['java', '-version'],
      ['mvn', '-v'],
    ] as const)
      execFileSync(command, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * Debezium's engine in a JVM of its own (pgoutput, its default batches), and batched upserts through JDBC that are written by
 * hand. Kafka, Kafka Connect and Debezium's JDBC sink connector, which most would put there, are left out: a row would pass
 * through more code before it reaches the same JDBC call. Without ledger and history.
 */
export function debezium(name: string, stream: Stream): Contestant<Writing> {
  return programmed(name, {
    stream,
    between: 'stands still',
    build: async (servers) => {
      await build();
      const source = await openPlace(servers.source);
      const store = await openPlace(servers);
      const slot = databaseOf(source);
      await source.pool.query(plainLogDdl(stream));
      await source.pool.query(`create publication bench for table public.log with (publish = 'insert')`);
      await source.pool.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slot]);
      await store.pool.query(stream.ddl);
      const { hostname, port, username, password } = new URL(source.url);
      const jdbc = new URL(store.url);
      return {
        source: source.pool,
        store: store.pool,
        write: await createWriter(source.pool, stream, insertInto('public.log', stream)),
        start: () =>
          startProgram(
            [
              'java',
              '-cp',
              `${join(built, 'target/classes')}:${join(built, 'target/lib/*')}`,
              'bench.Pipeline',
            ],
            {
              SLOT: slot,
              SOURCE_HOST: hostname,
              SOURCE_PORT: port,
              SOURCE_USER: username,
              SOURCE_PASSWORD: password,
              STORE_JDBC_URL:
                `jdbc:postgresql://${jdbc.host}${jdbc.pathname}?user=${jdbc.username}&password=${jdbc.password}` +
                '&reWriteBatchedInserts=true',
            },
          ),
        close: async () => {
          await source.close();
          await store.close();
        },
      };
    },
  });
}

/** Built outside of the repository's folders, so that nothing of it is ever packed or searched. */
async function build(): Promise<void> {
  cpSync(here, built, { recursive: true });
  await promisify(execFile)('mvn', ['-q', '-B', 'compile'], { cwd: built });
}
