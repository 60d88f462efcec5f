import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A run's folder, with a file for each comparison that is over. */
export interface Results {
  readonly dir: string;
  has(comparison: string): boolean;
  write(result: Record<string, unknown> & { readonly comparison: string }): void;
}

const root = fileURLToPath(new URL('../results', import.meta.url));

/** @param resume go on in the folder of the last run */
export function openResults({ resume }: { readonly resume: boolean }): Results {
  mkdirSync(root, { recursive: true });
  const last = resume
    ? readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    : [];
  const name =
    last
      .map((entry) => entry.name)
      .toSorted()
      .at(-1) ?? new Date().toISOString().replace(/[:.]/g, '-');
  const dir = join(root, name);
  mkdirSync(dir, { recursive: true });
  const fileOf = (comparison: string) => join(dir, `${comparison}.json`);
  return {
    dir,
    has: (comparison) => existsSync(fileOf(comparison)),
    write: (result) => writeFileSync(fileOf(result.comparison), JSON.stringify(result, null, 2)),
  };
}
