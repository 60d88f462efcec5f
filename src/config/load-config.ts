import { existsSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { EmendError } from '../errors.ts';
import { loadModule } from './load-module.ts';

const fileNames = ['ts', 'mts', 'js', 'mjs'].map((extension) => `emend.config.${extension}`);

/** @throws EmendError `config_not_found` */
export function findConfigFile(cwd: string, file: string | null): string {
  const candidates = file === null ? fileNames : [file];
  const found = candidates.map((name) => resolve(cwd, name)).find((path) => existsSync(path));
  if (found && !statSync(found).isDirectory()) return found;
  if (found) {
    throw new EmendError('config_not_found', `${found} is a folder, not a file`, {
      remedy: 'Name a file with --config.',
    });
  }
  throw new EmendError(
    'config_not_found',
    file === null ? `there is no emend.config.ts in ${cwd}` : `there is no file ${resolve(cwd, file)}`,
    {
      remedy:
        file === null
          ? `Run the command where ${fileNames.join(', ')} is, or name the file with --config.`
          : 'Name an existing file with --config.',
    },
  );
}

/** What the file exports by default. */
export function loadConfigFile(path: string): Promise<unknown> {
  return loadModule(path, 'defineConfig({ … })');
}
