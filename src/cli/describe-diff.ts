import { countOf } from '../observe/count-of.ts';
import type { BackfillChange } from '../pipeline/backfill-change.ts';
import type { BackfillDiff, DiffSummary } from '../pipeline/backfill-diff.ts';
import type { PlanComparison } from '../pipeline/diff-plan.ts';
import type { ChangedWindows } from '../pipeline/diff-windows.ts';
import { formatTable } from './format-table.ts';

export function describeSummaries(summary: readonly DiffSummary[]): string[] {
  return summary.length === 0 ? ['no answer changes'] : summary.map(describeSummary);
}

export function describeDiff(diff: BackfillDiff, file: string | undefined): string {
  const { backfill, summary, windows, exported, plan } = diff;
  if (summary.length === 0 && !plan?.notNeeded) return `backfill ${backfill} changes no answer.`;
  return [
    ...summary.map(describeSummary),
    ...(plan === null ? [] : describePlan(plan)),
    ...(exported === null
      ? ['', ...(windows === null ? describeChanges(diff) : describeWindows(windows))]
      : [
          `${windows === null ? countOf(exported, 'change is', 'changes are') : countOf(exported, 'row is', 'rows are')} in ${file ?? ''}`,
        ]),
  ].join('\n');
}

function describeChanges({ summary, changes }: BackfillDiff): string[] {
  const all = summary.reduce((sum, { added, removed, changed }) => sum + added + removed + changed, 0);
  const more = all - changes.length;
  return [
    changeTable(changes),
    ...(more > 0 ? [`and ${more} more: --limit <rows>, or --export <file>`] : []),
  ];
}

function describeWindows(windows: readonly ChangedWindows[]): string[] {
  return [
    formatTable(
      ['target', 'from', 'to', 'windows', 'keys', 'parts'],
      windows.map((each) => [
        each.target,
        each.from,
        each.to,
        each.windows === null ? 'no end' : String(each.windows),
        String(each.keys),
        String(each.parts),
      ]),
    ),
    'keys and parts are those of each window; --limit <rows> or --export <file> for more',
  ];
}

/** Whether the promote did what its check had planned. */
function describePlan({ inAddition, notNeeded, differences }: PlanComparison): string[] {
  if (inAddition + notNeeded === 0) return ['the promote did what was planned'];
  return [
    `against the plan: ${inAddition} in addition, ${notNeeded} not needed, because of what came between check and promote`,
    formatTable(
      ['target', 'key', 'from', 'to', 'before', 'after', '', 'because of'],
      differences.map((each) => [
        each.target,
        valuesOf(each.key),
        each.validFrom ?? '',
        each.validTo ?? '',
        changedValues(each.old, each.new),
        changedValues(each.new, each.old),
        each.came,
        each.because.join(', '),
      ]),
    ),
  ];
}

function describeSummary({ target, keys, added, removed, changed, columns }: DiffSummary): string {
  const counts = `${countOf(keys, 'key')}: ${added} added, ${removed} removed, ${changed} changed`;
  const each = Object.entries(columns).map(([column, count]) => `${column} ${count}`);
  return `${target}  ${counts}${each.length > 0 ? ` (${each.join(', ')})` : ''}`;
}

function changeTable(changes: readonly BackfillChange[]): string {
  return formatTable(
    ['target', 'key', 'from', 'to', 'before', 'after'],
    changes.map((change) => [
      change.target,
      valuesOf(change.key),
      change.validFrom ?? '',
      change.validTo ?? '',
      changedValues(change.old, change.new),
      changedValues(change.new, change.old),
    ]),
  );
}

type Values = BackfillChange['old'];

/** Of two answers only what differs. */
function changedValues(values: Values, others: Values): string {
  if (values === null) return 'nothing';
  return valuesOf(
    Object.fromEntries(Object.entries(values).filter(([column, value]) => others?.[column] !== value)),
  );
}

function valuesOf(values: Readonly<Record<string, string | null>>): string {
  return Object.entries(values)
    .map(([column, value]) => `${column}=${value ?? 'null'}`)
    .join(' ');
}
