import type { ListedRow } from '../pipeline/list-diverged.ts';
import { formatTable } from './format-table.ts';

export function describeDiverged(rows: readonly ListedRow[], limit: number): string {
  if (rows.length === 0) return 'Log and store have parted nowhere.';
  const table = formatTable(
    ['_id', 'target', 'kind', 'key', 'noticed at', 'state'],
    rows.map((row) => [row._id, row.target, row.kind, keyOf(row), row.noticed_at, stateOf(row)]),
  );
  const meaning = [
    'lost: merged, and no longer in the log; its effect stays.',
    'reused: in the log, and not merged, since the store has its number of another row.',
  ];
  const more = rows.length === limit ? ['There may be more rows: give a greater --limit.'] : [];
  return [table, '', ...meaning, ...more].join('\n');
}

function keyOf({ key }: ListedRow): string {
  if (key === null) return 'is not found any more';
  return Object.entries(key)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

function stateOf({ state, new_id, resolved_at, resolved_by, resolved_reason }: ListedRow): string {
  if (state === 'open') return state;
  const as = new_id === null ? '' : ` as ${new_id}`;
  return `${state}${as} by ${resolved_by} ${resolved_at}: ${resolved_reason}`;
}
