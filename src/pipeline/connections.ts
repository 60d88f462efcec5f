import type { Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { urlOptions } from '../config/options.ts';
import type { UrlOption } from '../config/options.ts';
import { connectError } from '../db/connect-error.ts';
import type { ConnectionSetting } from '../db/connect-error.ts';
import { createPool } from '../db/pool.ts';

interface OpenOptions {
  /** What the process does, for `pg_stat_activity`: `worker`. */
  readonly role: string;
  readonly max?: number;
  readonly statementTimeoutMs?: number;
  readonly pipeline?: boolean;
  readonly settings?: Readonly<Record<string, string>>;
}

/** @throws EmendError `connection_invalid` or `connection_failed`, which names the setting that it came from. */
export function openSource(config: ResolvedConfig, options: OpenOptions): Promise<Pool> {
  return openPool(settingOf('source.url', config.source.url), options);
}

/** @throws EmendError `connection_invalid` or `connection_failed`, which names the setting that it came from. */
export function openStore(config: ResolvedConfig, options: OpenOptions): Promise<Pool> {
  return openPool(settingOf('store.url', config.store.url), options);
}

/**
 * Settings of the sessions that read logs beside the work. Look-ups are by index and pages in its order, whatever the statistics say. They know nothing of what was written last: a page
 * that is taken for a handful of rows would be sorted out of all that come after it, each time.
 */
export const logSettings: Readonly<Record<string, string>> = {
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  jit: 'off',
};

/** The source for those who read logs beside the work. It is not connected to here: workers go on merging while the source is away. */
export function createLogPool(config: ResolvedConfig, { role, max }: { role: string; max: number }): Pool {
  return createPool({
    url: config.source.url,
    applicationName: `emend ${role}`,
    max,
    statementTimeoutMs: 25_000,
    settings: logSettings,
  });
}

export function createSweepSource(config: ResolvedConfig): Pool {
  return createLogPool(config, { role: 'sweep', max: 1 });
}

/** The same for a command, which has nothing to do while the source is away. */
export function openSweepSource(config: ResolvedConfig): Promise<Pool> {
  return reach(createSweepSource(config), settingOf('source.url', config.source.url));
}

/** Lends pools of both servers to `body`, and closes them whatever happens. */
export async function withServers<T>(
  config: ResolvedConfig,
  options: OpenOptions,
  body: (servers: { source: Pool; store: Pool }) => Promise<T>,
): Promise<T> {
  const source = await openSource(config, options);
  try {
    const store = await openStore(config, options);
    try {
      return await body({ source, store });
    } finally {
      await store.end();
    }
  } finally {
    await source.end();
  }
}

function openPool(from: ConnectionSetting, { role, ...options }: OpenOptions): Promise<Pool> {
  return reach(createPool({ url: from.url, applicationName: `emend ${role}`, ...options }), from);
}

/** The first connection is made here, so that a wrong URL is told as one, before anything is done. */
async function reach(pool: Pool, from: ConnectionSetting): Promise<Pool> {
  try {
    const client = await pool.connect();
    client.release();
    return pool;
  } catch (error) {
    await pool.end();
    throw connectError(error, from);
  }
}

/** The setting that a URL came from, by its names. */
export function settingOf(path: UrlOption['path'], url: string): ConnectionSetting {
  return { path, env: urlOptions.find((option) => option.path === path)!.env, url };
}
