/**
 * The configuration as every command gets it: found, loaded, checked as a whole, with its defaults and URLs filled in.
 *
 * Promise: no command starts on a configuration with a known mistake, and all mistakes are told at once.
 * If it breaks: a typo becomes a default in silence, or a target is migrated under the wrong name.
 */
import { EmendError } from '../errors.ts';
import { checkConfig } from './check-config.ts';
import { findConfigFile, loadConfigFile } from './load-config.ts';
import type { ResolvedConfig } from './resolved-config.ts';

export interface ConfigPlace {
  /** A file's name, or null to look for `emend.config.*` in `cwd`. */
  readonly file: string | null;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** @throws EmendError `config_not_found`, or `config_invalid` with every problem. */
export async function readConfig({ file, cwd, env }: ConfigPlace): Promise<ResolvedConfig> {
  const path = findConfigFile(cwd, file);
  return resolveConfig(await loadConfigFile(path), env, path);
}

/** Checks and completes what `defineConfig` returned. */
export function resolveConfig(
  input: unknown,
  env: ConfigPlace['env'] = process.env,
  path = 'the configuration',
): ResolvedConfig {
  const { config, problems } = checkConfig(input, env);
  if (problems.length > 0) {
    throw new EmendError('config_invalid', `${path} cannot be used`, {
      remedy: 'Correct what is said for each; nothing has been changed.',
      problems,
    });
  }
  return config;
}
