import type { ExplainedCorrection, Explanation } from '../merge/explain-key.ts';
import { countOf } from '../observe/count-of.ts';
import { formatTable } from './format-table.ts';

export function describeExplanation(target: string, { corrections, leftOut }: Explanation): string {
  if (corrections.length === 0) return `${target}: no correction of this key`;
  const names = Object.keys(corrections[0]!.columns);
  const header = ['_id', 'state', '_op', ...names, 'by', 'reason', 'believed from', 'believed to'];
  const rows = corrections.map((correction) => [
    correction._id,
    correction.state,
    correction._op,
    ...names.map((name) => correction.columns[name] ?? null),
    correction._actor ?? '',
    reasonOf(correction),
    correction.believed_from ?? `never (told ${correction.told_at})`,
    correction.believed_to ?? '',
  ]);
  return [
    `${target}: the first one orders before the ones below it`,
    '',
    formatTable(header, rows),
    ...(leftOut === 0
      ? []
      : ['', `and ${countOf(leftOut, 'more correction')} below: give --valid-at, or a greater --limit`]),
  ].join('\n');
}

function reasonOf({ _reason, _backfill, undone_reason }: ExplainedCorrection): string {
  const parts = [_reason, _backfill && `in ${_backfill}`, undone_reason && `taken back: ${undone_reason}`];
  return parts.filter((part) => typeof part === 'string' && part !== '').join('; ');
}
