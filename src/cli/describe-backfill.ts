import { rawInputOf } from '../backfill/raw-input.ts';
import type { RawInput } from '../backfill/raw-input.ts';
import { countOf } from '../observe/count-of.ts';
import type { BackfillChange, BackfillDiff, DiffSummary } from '../pipeline/backfill-diff.ts';
import type { BackfillCheck, BackfillReport, ListedBackfill } from '../pipeline/backfill-report.ts';
import type { BackfillRun } from '../pipeline/run-backfill.ts';
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
    ...rawInputOf(origin).map(describeRawInput),
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

function describeRawInput({ file, checksum }: RawInput): string {
  const found = checksum === null ? 'could not be read' : `could be read, sha256 ${checksum}`;
  return `raw input ${file}: ${found}`;
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

export function describeRun({
  backfill,
  state,
  problem,
  waitsFor,
  done,
  loaded,
  checks,
  diff,
}: BackfillRun): string {
  const written = loaded.reduce((sum, each) => sum + each.written, 0);
  const steps = done.map((step) => (step === 'loaded' ? `${countOf(written, 'row')} loaded` : step));
  const [isChecked, isPromoted] = [state === 'checked', state === 'promoted'];
  return [
    done.length === 0
      ? `backfill ${backfill} had been run before: it is ${state}; nothing has changed`
      : `backfill ${backfill} is ${state} (${steps.join(', ')})`,
    ...(checks.length === 0 ? [] : ['', checkTable(checks)]),
    ...(isChecked || isPromoted ? ['', ...describeSummaries(diff)] : []),
    ...(waitsFor === null ? [] : ['', `it is promoted at ${waitsFor}, while a worker runs`]),
    ...(problem === null ? [] : ['', `${problem}\nSee emend backfill show ${backfill}.`]),
    ...(isChecked && problem === null && waitsFor === null
      ? [
          '',
          `emend backfill diff ${backfill} lists the changes; run the file with --promote to make them visible`,
        ]
      : []),
  ].join('\n');
}

function describeSummaries(summary: readonly DiffSummary[]): string[] {
  return summary.length === 0 ? ['no answer changes'] : summary.map(describeSummary);
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
