import type { Imported } from '../backfill/import-history.ts';
import { countOf } from '../observe/count-of.ts';

export function describeImport(target: string, { name, rows, times, taken }: Imported): string {
  const what = `${countOf(rows, 'correction')} of ${target}, known at ${countOf(times, 'time')}`;
  if (taken === rows) return `imported: ${what}`;
  if (taken === 0) return `nothing was taken: the same file is in the store already, as ${name} (${what})`;
  return `imported: ${what}; ${rows - taken} of them had been taken by an earlier run`;
}
