import type { AtAnswer } from '../pipeline/at.ts';
import { formatTable } from './format-table.ts';

export function describeAnswer({ target, validAt, knownAt, columns, rows, more }: AtAnswer): string {
  const valid = validAt === null ? '' : `, valid at ${validAt}`;
  const known = knownAt === null ? 'as believed now' : `as known at ${knownAt}`;
  const title = `${target}${valid}, ${known}`;
  if (rows.length === 0) return `${title}: nothing`;
  const table = formatTable(
    columns,
    rows.map((row) => columns.map((column) => row[column] ?? null)),
  );
  return [
    title,
    '',
    table,
    ...(more ? ['', 'There are more rows: give --key, or a greater --limit.'] : []),
  ].join('\n');
}
