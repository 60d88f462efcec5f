import { existsSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmendError } from '../errors.ts';
import { isAlive } from './is-alive.ts';

/**
 * Deals with the postmaster.pid of an earlier run. PostgreSQL itself refuses to start when any process of the same user
 * has the number in that file, which after a crash may well be a stranger; so it is looked at here.
 */
export async function waitForEarlierServer(dataDir: string): Promise<void> {
  const lock = join(dataDir, 'postmaster.pid');
  for (let tries = 0; existsSync(lock); tries += 1) {
    const pid = Number.parseInt(readFileSync(lock, 'utf8'), 10);
    if (!isAlive(pid) || !runsIn(pid, dataDir)) {
      rmSync(lock, { force: true });
      return;
    }
    if (tries === 100) {
      throw new EmendError('server_unsuitable', `a PostgreSQL (process ${pid}) runs in ${dataDir} already`, {
        remedy: `Stop the emend that started it, or, if none is left: kill -INT ${pid}`,
      });
    }
    await sleep(100); // an interrupted run's server may still be on its way out
  }
}

/** A postmaster's working folder is its data folder. Where that cannot be told, assume the worst. */
function runsIn(pid: number, dataDir: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === dataDir;
  } catch {
    return !existsSync('/proc/self/cwd');
  }
}
