import { countOf } from '../observe/count-of.ts';
import type { Archived } from '../pipeline/archive.ts';
import type { Restored } from '../pipeline/restore-archive.ts';
import type { Sources } from '../pipeline/sources.ts';
import { formatTable } from './format-table.ts';

export function describeArchived(
  { target, rows, files, manifest, kept }: Archived,
  isDryRun: boolean,
): string {
  const moved = isDryRun
    ? `${countOf(rows, 'row')} would be moved`
    : `${countOf(rows, 'row')} moved to ${countOf(files.length, 'file')}${manifest === null ? '' : ` (${manifest})`}`;
  const stay =
    kept === 0
      ? ''
      : `; ${countOf(kept, 'older row stays', 'older rows stay')}: not merged yet, set aside, diverged, or of an open backfill`;
  return `${target}: ${moved}${stay}`;
}

export function describeRestored({ files, lacking }: Restored): string {
  if (files.length === 0) return 'nothing to put back: the rows of these files are in the log';
  const lines = files.map(
    ({ target, file, rows }) =>
      `${target}: ${countOf(rows, 'row')} of ${file} ${rows === 1 ? 'is' : 'are'} in the log again`,
  );
  if (lacking > 0)
    lines.push(`${countOf(lacking, 'row')} had no effect in this store: the sweep brings them`);
  return lines.join('\n');
}

export function describeSources({ logs, problems }: Sources): string {
  const table = formatTable(
    ['target', 'in the log', 'bytes', 'from', 'to', 'in files', 'files', 'adopted', 'can be replayed'],
    logs.map(({ target, log, archived, baseline, replayableFrom, isWhole }) => [
      target,
      String(log.rows),
      String(log.bytes),
      log.firstRecordedAt ?? '',
      log.lastRecordedAt ?? '',
      String(archived.rows),
      String(archived.files),
      baseline === null ? '' : `${baseline.rows} at ${baseline.adoptedAt}`,
      replayableFrom === null
        ? 'it is empty'
        : isWhole
          ? `whole, from ${replayableFrom}`
          : `what was written after ${replayableFrom}`,
    ]),
  );
  const found = problems.map(({ path, problem, remedy }) => `! ${path}: ${problem}\n  ${remedy}`);
  return [table, '', ...(found.length === 0 ? ['Everything can be replayed.'] : found)].join('\n');
}
