import { execFile, execFileSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
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

/** Debezium's own JDBC sink connector, with its default settings or with better ones, or the same calls of JDBC for this one table. */
type Sink = 'jdbc-sink' | 'jdbc-sink-tuned' | 'hand-written';

/**
 * Debezium's engine and a sink in one JVM. A Kafka between the two is left out: a row would be written to one more disk and read
 * from it again, on its way to the same calls. Without ledger and history.
 */
export function debezium(name: string, stream: Stream, sink: Sink): Contestant<Writing> {
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
              sink,
            ],
            {
              SLOT: slot,
              SOURCE_HOST: hostname,
              SOURCE_PORT: port,
              SOURCE_USER: username,
              SOURCE_PASSWORD: password,
              STORE_JDBC_URL: `jdbc:postgresql://${jdbc.host}${jdbc.pathname}`,
              STORE_USER: jdbc.username,
              STORE_PASSWORD: jdbc.password,
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

let building: Promise<void> | undefined;

/**
 * Once for all contestants, outside of the repository's folders, so that nothing of it is ever packed or searched; and from
 * nothing, since Maven leaves jars of older versions where they are.
 */
function build(): Promise<void> {
  return (building ??= compile());
}

async function compile(): Promise<void> {
  rmSync(built, { recursive: true, force: true });
  cpSync(here, built, { recursive: true });
  await promisify(execFile)('mvn', ['-q', '-B', 'compile'], { cwd: built });
}
