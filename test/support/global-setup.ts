import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { isAlive } from '../../src/dev/is-alive.ts';
import { startPostgres } from '../../src/dev/postgres.ts';
import { startRedis } from '../../src/dev/redis.ts';

/** One PostgreSQL and one Redis for the whole run; each test file makes its own databases in them (`databases.ts`). */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  removeLeftOvers();
  const dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-`));
  // EMEND_TEST_PG_BIN runs everything on an installed PostgreSQL instead of the embedded one: /usr/lib/postgresql/15/bin
  const binDir = process.env['EMEND_TEST_PG_BIN'];
  const postgres = await startPostgres({
    dataDir: join(dir, 'postgres'),
    fast: true,
    ...(binDir === undefined || binDir === '' ? {} : { binDir }),
  });
  const redis = await startRedis({ dir: join(dir, 'redis') });
  project.provide('postgresUrl', postgres.url());
  project.provide('redisUrl', redis.url);
  return async () => {
    await Promise.all([postgres.stop(), redis.stop()]);
    rmSync(dir, { recursive: true, force: true });
  };
}

/** Folders of runs that were killed. Their servers stopped by themselves. */
function removeLeftOvers(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = /^emend-test-(\d+)-/.exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    const folder = join(tmpdir(), name);
    // /tmp belongs to everybody: another user's are not ours to remove, and a parallel run may be faster.
    if (statSync(folder, { throwIfNoEntry: false })?.uid !== process.getuid?.()) continue;
    rmSync(folder, { recursive: true, force: true });
  }
}

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's URL of the run's PostgreSQL, database `postgres`. */
    postgresUrl: string;
    /** The run's Redis; the product's prefix keeps installs apart. */
    redisUrl: string;
  }
}
