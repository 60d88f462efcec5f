import { countOf } from '../observe/count-of.ts';
import type { BackfillChange, BackfillDiff, DiffSummary } from '../pipeline/backfill-diff.ts';
import type { BackfillCheck, BackfillReport, ListedBackfill } from '../pipeline/backfill-report.ts';
import { formatTable } from './format-table.ts';

export function describeBackfills(backfills: readonly ListedBackfill[]): string {
  if (backfills.length === 0) return 'There is no backfill. Begin one with emend backfill open <name>.';
  return formatTable(
    ['name', 'state', 'targets', 'rows', 'since', 'reason', 'problem'],
    backfills.map((backfill) => [
      backfill.name,
      stateOf(backfill),
      backfill.targets.join(', '),
      backfill.rows === null ? '' : String(backfill.rows),
      backfill.since,
      backfill.reason,
      backfill.problem ?? '',
    ]),
  );
}

/** What was asked for, where the store is not there yet. */
function stateOf({ state, asked }: ListedBackfill): string {
  const steps = ['open', 'sealed', 'staged', 'checked', 'promoted', 'reverted'];
  const isBehind =
    asked === 'abandoned' ? state !== 'abandoned' : steps.indexOf(asked) > steps.indexOf(state);
  return isBehind && state !== 'abandoned' ? `${state}, ${asked} asked for` : state;
}

export function describeBackfill(report: BackfillReport): string {
  const { name, targets, logicVersion, boundary, origin, actor, openedAt, reason, problem } = report;
  return [
    `backfill  ${name}`,
    `state     ${stateOf(report)}`,
    ...(problem === null ? [] : [`problem   ${problem}`]),
    `targets   ${targets.join(', ')}`,
    `reason    ${reason ?? ''}`,
    `opened    ${openedAt} by ${actor}`,
    `logic     ${logicVersion ?? ''}`,
    `boundary  ${JSON.stringify(boundary)}`,
    `origin    ${JSON.stringify(origin)}`,
    '',
    formatTable(
      ['target', 'loaded', 'sealed', 'staged'],
      report.counts.map(({ target, loaded, sealed, staged }) => [
        target,
        String(loaded),
        sealed === null ? '' : String(sealed),
        String(staged),
      ]),
    ),
    ...(report.events.length === 0
      ? []
      : [
          '',
          formatTable(
            ['state', 'at', 'by', 'reason'],
            report.events.map((event) => [event.state, event.at, event.actor ?? '', event.reason ?? '']),
          ),
        ]),
    ...(report.checks.length === 0 ? [] : ['', checkTable(report.checks)]),
  ].join('\n');
}

export function describeChecks(name: string, state: string, checks: readonly BackfillCheck[]): string {
  if (checks.length === 0) {
    return `backfill ${name} is ${state} and has not been checked: that is done when all that was sealed is staged.`;
  }
  return checkTable(checks);
}

function checkTable(checks: readonly BackfillCheck[]): string {
  return formatTable(
    ['check', 'target', 'figure', 'threshold', 'verdict'],
    checks.map(({ name, target, figure, threshold, verdict, accepted }) => [
      name,
      target,
      figure,
      threshold,
      accepted === null ? verdict : `${verdict}, accepted: ${accepted}`,
    ]),
  );
}

export function describeDiff(
  { backfill, summary, changes, exported }: BackfillDiff,
  file: string | undefined,
): string {
  if (summary.length === 0) return `backfill ${backfill} changes no answer.`;
  const all = summary.reduce((sum, { added, removed, changed }) => sum + added + removed + changed, 0);
  const more = all - changes.length;
  return [
    ...summary.map(describeSummary),
    ...(exported === null ? ['', changeTable(changes)] : []),
    ...(exported === null && more > 0
      ? [`and ${countOf(more, 'more')}: --limit <rows>, or --export <file>`]
      : []),
    ...(exported === null ? [] : [`${countOf(exported, 'change is', 'changes are')} in ${file ?? ''}`]),
  ].join('\n');
}

function describeSummary({ target, keys, added, removed, changed, columns }: DiffSummary): string {
  const counts = `${countOf(keys, 'key')}: ${added} added, ${removed} removed, ${changed} changed`;
  const each = Object.entries(columns).map(([column, count]) => `${column} ${count}`);
  return `${target}  ${counts}${each.length > 0 ? ` (${each.join(', ')})` : ''}`;
}

function changeTable(changes: readonly BackfillChange[]): string {
  return formatTable(
    ['target', 'key', 'from', 'to', 'now', 'then'],
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
