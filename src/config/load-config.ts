import { existsSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import { createJiti } from 'jiti';
import { EmendError } from '../errors.ts';

const fileNames = ['ts', 'mts', 'js', 'mjs'].map((extension) => `emend.config.${extension}`);

/** @throws EmendError `config_not_found` */
export function findConfigFile(cwd: string, file: string | null): string {
  const candidates = file === null ? fileNames : [file];
  const found = candidates.map((name) => resolve(cwd, name)).find((path) => existsSync(path));
  if (found) return found;
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
export async function loadConfigFile(path: string): Promise<unknown> {
  // the running emend stands in for `import … from 'emend'`, also where no package of that name is installed
  const jiti = createJiti(import.meta.url, { fsCache: false, virtualModules: { emend: await importSelf() } });
  let loaded: { default?: unknown };
  try {
    loaded = await jiti.import(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new EmendError('config_invalid', `${path} cannot be loaded: ${reason}`, {
      remedy: 'Correct the file; it has to run by itself and export a configuration by default.',
      cause,
    });
  }
  if (loaded.default !== undefined) return loaded.default;
  throw new EmendError('config_invalid', `${path} exports nothing by default`, {
    remedy: 'Write: export default defineConfig({ … })',
  });
}

/** The public surface that this file belongs to; its name is built here, as no file of the house imports upwards. */
async function importSelf(): Promise<unknown> {
  const index = new URL(`../index${extname(import.meta.url)}`, import.meta.url);
  return import(index.href);
}
