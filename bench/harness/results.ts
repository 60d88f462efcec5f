import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A run's folder, with a file for each comparison that is over. */
export interface Results {
  readonly dir: string;
  has(comparison: string): boolean;
  write(result: Record<string, unknown> & { readonly comparison: string }): void;
}

/** Quick runs have a folder of their own: nobody is to take their figures for figures. */
const root = (quick: boolean) =>
  fileURLToPath(new URL(`../results/${quick ? 'quick' : 'full'}`, import.meta.url));

/** @param options `resume`: go on in the folder of the last run of this form */
export function openResults(options: { readonly resume: boolean; readonly quick: boolean }): Results {
  const runs = root(options.quick);
  mkdirSync(runs, { recursive: true });
  const last = options.resume ? readdirSync(runs).toSorted().at(-1) : undefined;
  const dir = join(runs, last ?? new Date().toISOString().replace(/[:.]/g, '-'));
  const fileOf = (comparison: string) => join(dir, `${comparison}.json`);
  return {
    dir,
    has: (comparison) => existsSync(fileOf(comparison)),
    write: (result) => {
      // a run that brought nothing leaves nothing to go on with
      mkdirSync(dir, { recursive: true });
      writeFileSync(fileOf(result.comparison), JSON.stringify(result, null, 2));
    },
  };
}
