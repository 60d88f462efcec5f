import { afterAll, beforeAll, describe, it } from 'vitest';
import { ensureBuilt } from './built-cli.ts';
import { programOf } from './program.ts';
import { runProgram } from './run-program.ts';
import { startServers } from './servers.ts';
import type { Servers } from './servers.ts';

/**
 * Programs for each kind of queue: EMEND_FAULTS_PROGRAMS, of which the queue in Postgres gets a quarter. EMEND_FAULTS_SEED is
 * the first one's seed, the next ones count up: a failure names the seed with which it alone is run again. EMEND_FAULTS_LONG: with
 * faults that take a minute.
 */
const programs = Number(process.env.EMEND_FAULTS_PROGRAMS ?? 2);
const isLong = (process.env.EMEND_FAULTS_LONG ?? '') !== '';
const firstSeed = Number(process.env.EMEND_FAULTS_SEED ?? Math.floor(Math.random() * 2 ** 31));
const queues = [
  { queue: 'redis' as const, count: programs },
  { queue: 'postgres' as const, count: Math.ceil(programs / 4) },
].filter(({ queue }) => [undefined, '', queue].includes(process.env.EMEND_FAULTS_QUEUE));

describe.each(queues)('after any faults, once everything runs again, queue in $queue', ({ queue, count }) => {
  let servers: Servers;
  beforeAll(async () => {
    await ensureBuilt();
    servers = await startServers();
  }, 120_000);
  afterAll(() => servers?.stop());

  it.each(Array.from({ length: count }, (_, place) => firstSeed + place))(
    'nothing is lost and nothing happened twice: seed %i',
    { timeout: 300_000 },
    async (seed) => {
      const program = programOf(seed, queue, isLong);
      try {
        const outcome = await runProgram(servers, queue, program);
        tell(`seed ${seed}, queue in ${queue}: ${JSON.stringify(outcome)}`);
      } catch (error) {
        (error as Error).message +=
          `\n\nrun it again: EMEND_FAULTS_SEED=${seed} EMEND_FAULTS_PROGRAMS=1 EMEND_FAULTS_QUEUE=${queue} ${isLong ? 'npm run test:faults' : 'npm run test:only -- test/faults'}` +
          `\nprogram: ${JSON.stringify(program)}`;
        // a long run shows it at its end
        tell((error as Error).message);
        throw error;
      }
    },
  );
});

function tell(text: string): void {
  if (process.env.EMEND_FAULTS_VERBOSE !== undefined) process.stderr.write(`${text}\n`);
}
