import type { Difference, Piece } from '../verify/compare.ts';
import type { Findings, Gap } from '../verify/findings.ts';
import type { Verification } from '../verify/verify.ts';
import { countOf } from '../observe/count-of.ts';
import { formatTable } from './format-table.ts';

const meanings: Readonly<Record<Difference['kind'] | Gap['kind'] | 'archive_unreadable', string>> = {
  missing: 'rows that the log says, and the store has not',
  changed: 'rows that are not as the log says',
  unexpected: 'rows that the store has beyond what the log says',
  unexplained: 'rows that no correction of their key explains: somebody else wrote them, or the log lost it',
  overlap: 'standing pieces that overlap another of their key',
  empty: 'standing pieces that are empty',
  not_merged:
    'rows of the log that are neither merged nor set aside (they are sent again by the sweep; is a worker running?)',
  not_in_log: 'rows that were merged, and are not in the log: see emend diverged list',
  not_undone:
    'corrections that were asked to be taken back, and are not: run emend undo again (of a backfill: docs/operations.md, "Verifying")',
  not_held: 'rows of backfills that are neither staged, merged nor dismissed, as the state of theirs says',
  not_promoted:
    'rows of backfills that are merged, though theirs is not promoted: its state was changed by hand (docs/operations.md, "Verifying")',
  archive_unreadable:
    'files of archived rows that cannot be read: what they hold is taken for what the store has of it',
  other_nonce: 'rows whose number belongs to another row in the log: see emend diverged list',
};

export function describeVerification(verification: Verification): string {
  const { repaired, repairedFrom } = verification;
  if (repaired === 0) return describeFindings(verification);
  const mended = [
    `${countOf(repaired, 'row was', 'rows were')} repaired:`,
    '',
    differenceTable(repairedFrom),
  ];
  return describeFindings(verification, mended);
}

/** @param mended lines about what was done, after the summary */
export function describeFindings(findings: Findings, mended: readonly string[] = []): string {
  const { target, until, corrections, found, differences, gaps, unread, setAside } = findings;
  const kinds = Object.entries(found);
  const scope = `${countOf(corrections, 'correction')}, as believed up to ${until}`;
  const aside = setAside === 0 ? [] : [describeSetAside(target, setAside)];
  if (kinds.length === 0) return [`${target}: as the log says (${scope})`, ...aside, ...mended].join('\n');
  const shown = differences.length + gaps.length + unread.length;
  const total = kinds.reduce((sum, [, count]) => sum + count, 0);
  return [
    `${target}: not as the log says (${scope})`,
    ...aside,
    ...mended,
    ...(mended.length > 0 ? [''] : []),
    ...kinds.map(([kind, count]) => `! ${count} ${kind}: ${meanings[kind as Difference['kind']]}`),
    ...(differences.length > 0 ? ['', differenceTable(differences)] : []),
    ...(gaps.length > 0
      ? [
          '',
          formatTable(
            ['kind', '_id'],
            gaps.map(({ kind, _id }) => [kind, _id]),
          ),
        ]
      : []),
    ...unread.map(({ file, problem, rows }) => `! ${file}, ${countOf(rows, 'row')}: ${problem}`),
    ...(shown < total ? ['', `${total - shown} more: give --key, or a greater --limit.`] : []),
  ].join('\n');
}

/** Rows of which the comparison says nothing: they are in the log, and not in the store. */
function describeSetAside(target: string, rows: number): string {
  return `beside it, ${countOf(rows, 'log row is', 'log rows are')} set aside: emend dead list --target ${target}`;
}

/** Both sides of a difference stand below each other. */
function differenceTable(differences: readonly Difference[]): string {
  const columns = Object.keys(differences[0]!.log?.columns ?? differences[0]!.store!.columns);
  const header = ['kind', 'table', '_id', 'side', '_op', ...columns, '_known_from', '_known_to'];
  const side = ({ kind, place, _id }: Difference, name: string, piece: Piece | null) =>
    piece === null
      ? []
      : [
          [
            kind,
            place,
            _id,
            name,
            piece._op,
            ...columns.map((column) => piece.columns[column] ?? null),
          ].concat(piece._known_from, piece._known_to),
        ];
  return formatTable(
    header,
    differences.flatMap((difference) => [
      ...side(difference, 'log', difference.log),
      ...side(difference, 'store', difference.store),
    ]),
  );
}
