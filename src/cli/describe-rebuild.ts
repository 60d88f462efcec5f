import { countOf } from '../observe/count-of.ts';
import type { RebuildRecord } from '../pipeline/list-rebuilds.ts';
import type { Rebuild } from '../verify/rebuild.ts';
import type { AsKnown, Change } from '../verify/write-as-known.ts';
import { describeFindings } from './describe-verification.ts';
import { formatTable } from './format-table.ts';

export function describeRebuild(rebuilt: Rebuild): string {
  return [describeFindings(rebuilt), '', ...outcomeOf(rebuilt)].join('\n');
}

function outcomeOf({ id, target, outcome, keys, leftAlone, written }: Rebuild): string[] {
  const alone =
    leftAlone === 0
      ? []
      : [
          `! ${countOf(leftAlone, 'key is', 'keys are')} left alone: the log does not have, or has otherwise, what the store has of ${leftAlone === 1 ? 'it' : 'them'} (see emend diverged list).`,
        ];
  const differing = keys - leftAlone;
  if (outcome === 'swapped') {
    const done =
      differing === 0
        ? keys === 0
          ? 'nothing differed, and nothing was swapped'
          : 'nothing was swapped'
        : `${countOf(differing, 'key is', 'keys are')} as the log says now: ${countOf(written.takenOut, 'row')} taken out, ${written.putIn} put in, all at once`;
    return [`${done} (rebuild ${id})`, ...alone];
  }
  if (differing === 0) return [`nothing to swap (rebuild ${id})`, ...alone];
  return [
    `${countOf(differing, 'key differs', 'keys differ')}; nothing has been changed (rebuild ${id})`,
    ...alone,
    `To make ${differing === 1 ? 'it' : 'them'} as the log says: emend rebuild ${target} --swap --reason "…"`,
  ];
}

export function describeAsKnown(written: AsKnown): string {
  const { id, target, knownAt, into, corrections, rows, changed, changes, unread } = written;
  const uncertain = written.uncertain - unread.reduce((sum, file) => sum + file.rows, 0);
  const kinds = Object.entries(changed);
  const total = kinds.reduce((sum, [, count]) => sum + count, 0);
  return [
    `${target} as known at ${knownAt}: ${countOf(rows, 'row')} of ${countOf(corrections, 'correction')} written to ${into} (rebuild ${id})`,
    ...(uncertain > 0
      ? [
          `! ${countOf(uncertain, 'correction')} that log and store do not have alike: see emend verify ${target}`,
        ]
      : []),
    ...unread.map(
      ({ rows: ofFile, problem }) =>
        `! ${countOf(ofFile, 'correction')} taken for what the store has: ${problem}`,
    ),
    ...(unread.length > 0
      ? ['  Bring the file back, or name the folder (or manifest) of a copy: --archive.']
      : []),
    ...(total === 0 ? ['the target is the same today'] : []),
    ...kinds.map(([kind, count]) => `${count} ${meanings[kind as Change['kind']]}`),
    ...(changes.length > 0 ? ['', changeTable(changes)] : []),
    ...(changes.length < total ? ['', `${total - changes.length} more: give a greater --limit.`] : []),
  ].join('\n');
}

const meanings: Readonly<Record<Change['kind'], string>> = {
  only_known: 'only then',
  only_today: 'only today',
  changed: 'not the same today',
};

function changeTable(changes: readonly Change[]): string {
  const columns = Object.keys(changes[0]!.known ?? changes[0]!.today!);
  const side = (name: string, row: Change['known']) =>
    row === null ? [] : [[name, ...columns.map((column) => row[column] ?? null)]];
  return formatTable(
    ['as of', ...columns],
    changes.flatMap(({ known, today }) => [...side('then', known), ...side('today', today)]),
  );
}

export function describeRebuilds(records: readonly RebuildRecord[]): string {
  if (records.length === 0) return 'Nothing has been rebuilt.';
  return formatTable(
    ['id', 'target', 'outcome', 'began', 'known at', 'differed', 'out', 'in', 'by', 'reason'],
    records.map((record) => [
      record.id,
      record.target,
      outcome(record),
      record.started_at,
      record.known_at ?? '',
      record.differed ?? '',
      record.taken_out ?? '',
      record.put_in ?? '',
      record.actor,
      record.reason ?? '',
    ]),
  );
}

function outcome({ outcome: came, problem, written_to, differed }: RebuildRecord): string {
  if (came === 'failed') return `failed (${problem})`;
  if (came === 'swapped' && Number(differed) === 0) return 'nothing differed';
  return came === 'written' ? `written to ${written_to}` : came.replaceAll('_', ' ');
}
