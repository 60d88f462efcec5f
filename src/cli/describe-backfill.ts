import { rawInputOf } from '../backfill/raw-input.ts';
import type { RawInput } from '../backfill/raw-input.ts';
import type { Wait } from '../backfill/state.ts';
import { countOf } from '../observe/count-of.ts';
import type { BackfillCheck, BackfillReport, ListedBackfill } from '../pipeline/backfill-report.ts';
import type { OtherRequest } from '../pipeline/backfill-requests.ts';
import type { BackfillRun } from '../pipeline/run-backfill.ts';
import { describeSummaries } from './describe-diff.ts';
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
      backfill.problem ?? (backfill.waits === null ? '' : describeWait(backfill.waits)),
    ]),
  );
}

/** What a promote waits for. */
export function describeWait({ until, closedBy }: Wait): string {
  return closedBy.length === 0
    ? `is promoted at ${until}, while a worker runs`
    : `waits for its window (${closedBy.join(', ')}): next at ${until}, while a worker runs`;
}

/** Done, and not by this request. */
export function describeOther(state: string, { at, reason }: OtherRequest): string {
  return `it was ${state} by another request than this one, with this on record: ${at}${reason === null ? '' : `, ${reason}`}`;
}

/** What was asked for, where the store is not there yet. */
function stateOf({ state, asked, refusedAt }: ListedBackfill): string {
  if (refusedAt !== null) return `${state}, promote refused at ${refusedAt}`;
  const steps = ['open', 'sealed', 'staged', 'checked', 'promoted', 'reverted'];
  const isBehind =
    asked === 'abandoned' ? state !== 'abandoned' : steps.indexOf(asked) > steps.indexOf(state);
  return isBehind && state !== 'abandoned' ? `${state}, asked to be ${asked}` : state;
}

export function describeBackfill(report: BackfillReport): string {
  const { name, targets, logicVersion, boundary, origin, actor, openedAt, reason, problem } = report;
  return [
    `backfill  ${name}`,
    `state     ${stateOf(report)}`,
    ...(problem === null ? [] : [`problem   ${problem}`]),
    ...(report.waits === null ? [] : [`promote   ${describeWait(report.waits)}`]),
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
  const table = formatTable(
    ['check', 'target', 'figure', 'threshold', 'verdict'],
    checks.map(({ name, target, figure, threshold, verdict, accepted }) => [
      name,
      target,
      figure,
      threshold,
      accepted === null ? verdict : `${verdict}, accepted: ${accepted}`,
    ]),
  );
  return [table, ...describeExamples(checks), ...describeMonths(checks)].join('\n');
}

function describeExamples(checks: readonly BackfillCheck[]): string[] {
  const rows = checks.flatMap(({ name, target, examples = [] }) =>
    examples.map((example) => [name, target, example]),
  );
  return rows.length === 0 ? [] : ['', formatTable(['failing check', 'target', 'at'], rows)];
}

/** More of them are in the details of `emend.backfill_check`. */
const shownMonths = 24;

function describeMonths(checks: readonly BackfillCheck[]): string[] {
  const months = checks.flatMap(({ target, months: found = [] }) =>
    found.map((month) => ({ target, ...month })),
  );
  if (months.length === 0) return [];
  const table = formatTable(
    ['target', 'month', 'parts', 'sums'],
    months.slice(0, shownMonths).map(({ target, month, rows, sums }) => [
      target,
      month ?? 'no start',
      rows.join(' -> '),
      Object.entries(sums)
        .map(([column, [before, after]]) => `${column} ${before ?? 0} -> ${after ?? 0}`)
        .join(', '),
    ]),
  );
  const more = months.length - shownMonths;
  return [
    '',
    table,
    ...(more > 0 ? [`and ${more} more: emend.backfill_check, details of changes_by_month`] : []),
  ];
}

export function describeRun({
  backfill,
  state,
  problem,
  waitsFor,
  window,
  byOther,
  done,
  loaded,
  rowsGone,
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
    ...rowsGone.map((file) => `${file} is not there any more: what was loaded of it stays`),
    ...(checks.length === 0 ? [] : ['', checkTable(checks)]),
    ...(isChecked || isPromoted ? ['', ...describeSummaries(diff)] : []),
    ...(byOther === null ? [] : ['', describeOther(state, byOther)]),
    ...(waitsFor === null ? [] : ['', `it ${describeWait({ until: waitsFor, closedBy: window })}`]),
    ...(problem === null ? [] : ['', `${problem}\nSee emend backfill show ${backfill}.`]),
    ...(isChecked && problem === null && waitsFor === null
      ? [
          '',
          `emend backfill diff ${backfill} lists the changes; run the file with --promote to make them visible`,
        ]
      : []),
  ].join('\n');
}
