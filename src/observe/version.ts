import { readFileSync } from 'node:fs';

/** The version of this emend, beside `src` and beside `dist` alike. */
export function emendVersion(): string {
  const manifest = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
}
