import { extname } from 'node:path';
import { createJiti } from 'jiti';
import { EmendError } from '../errors.ts';

/**
 * What a TypeScript or JavaScript file exports by default.
 *
 * @param example what the file has to write
 * @throws EmendError `config_invalid` when it cannot be loaded, or exports nothing by default
 */
export async function loadModule(path: string, example: string): Promise<unknown> {
  // the running emend stands in for `import … from 'emend'`, also where no package of that name is installed
  const jiti = createJiti(import.meta.url, {
    fsCache: false,
    // otherwise a default export that is null fails within jiti, and one that is missing is made up of the named ones
    interopDefault: false,
    virtualModules: { emend: await importSelf() },
  });
  let loaded: unknown;
  try {
    loaded = await jiti.import(path);
  } catch (cause) {
    const reason = (cause instanceof Error ? cause.message : String(cause)).replace(
      /\s*Require stack:.*/s,
      '',
    );
    throw new EmendError('config_invalid', `${path} cannot be loaded: ${reason}`, {
      remedy: `Correct the file; it has to run by itself. ${writeIt(example)}`,
      cause,
    });
  }
  if (typeof loaded !== 'object' || loaded === null) return loaded; // module.exports
  if ('default' in loaded && loaded.default !== undefined) return loaded.default;
  if (!isEsModule(loaded)) return loaded;
  throw new EmendError('config_invalid', `${path} exports nothing by default`, { remedy: writeIt(example) });
}

/** Compiled by jiti, or loaded by Node itself. */
function isEsModule(loaded: object): boolean {
  return '__esModule' in loaded || Object.prototype.toString.call(loaded) === '[object Module]';
}

function writeIt(example: string): string {
  return `Write: export default ${example}`;
}

/** The public surface that this file belongs to; its name is built here, as no file of the house imports upwards. */
async function importSelf(): Promise<unknown> {
  const index = new URL(`../index${extname(import.meta.url)}`, import.meta.url);
  return import(index.href);
}
