import { countOf } from '../observe/count-of.ts';
import type { CutStatus } from '../pipeline/cut-report.ts';
import type { ReaderStatus } from '../pipeline/slot-status.ts';
import type { QueueStatus, Status } from '../pipeline/status-report.ts';
import type { SweepStatus } from '../pipeline/sweep-status.ts';
import { describeWait } from './describe-backfill.ts';
import { formatTable } from './format-table.ts';

export function describeStatus({
  install,
  readers,
  queue,
  targets,
  settled,
  sweep,
  cut,
  backfills,
  problems,
}: Status): string {
  return [
    `install  ${install}`,
    ...readers.map((reader) => `slot     ${describeSlot(reader)}`),
    `queue    ${describeQueue(queue)}`,
    `settled  ${settled.at} (${settled.lagMs} ms ago)`,
    `sweep    ${describeSweep(sweep)}`,
    ...(cut.transactions === 0 ? [] : [`cut      ${describeCut(cut)}`]),
    '',
    formatTable(
      ['target', 'kind', 'table', 'merged', 'set aside'],
      targets.map((target) => [
        target.name,
        target.kind,
        target.table,
        target.migrated ? String(target.merged) : 'not migrated',
        String(target.setAside),
      ]),
    ),
    '',
    ...describeBackfills(backfills),
    ...(problems.length === 0
      ? ['All is well.']
      : problems.map(({ path, problem, remedy }) => `! ${path}: ${problem}\n  ${remedy}`)),
  ].join('\n');
}

function describeBackfills(backfills: Status['backfills']): string[] {
  if (backfills.length === 0) return [];
  const rows = backfills.map(({ name, state, problem, waits }) => [
    name,
    state,
    problem === null ? (waits === null ? '' : describeWait(waits)) : 'does not go on',
  ]);
  return [formatTable(['backfill', 'state', ''], rows), ''];
}

function describeSlot({ slot, share }: ReaderStatus): string {
  const which = share.of === 1 ? '' : `share ${share.number} of ${share.of}, `;
  if (!slot) return `${which}missing`;
  const { name, state, connectedFrom, confirmed, lagBytes, retainedBytes, walStatus } = slot;
  const from = share.of === 1 || connectedFrom === null ? '' : ` from ${connectedFrom}`;
  return `${which}${name}, ${state}${from}, confirmed ${confirmed ?? 'nothing'}, ${formatBytes(lagBytes)} behind, ${formatBytes(retainedBytes)} of WAL kept (${walStatus})`;
}

function describeQueue(queue: QueueStatus): string {
  if ('reachable' in queue) {
    const what = queue.reachable ? 'answers, and cannot be used as it is' : 'does not answer';
    return `${queue.kind}, ${what}`;
  }
  return `${queue.kind}, ${queue.waiting} waiting, ${queue.active} at work, ${queue.delayed} to be tried again`;
}

function describeSweep({ roundAgoMs, missing, lastEnqueuedAt, lastEnqueued, behindMs }: SweepStatus): string {
  if (roundAgoMs === null) return 'has not run yet';
  const upTo = behindMs === null ? 'nothing is known yet' : `complete up to ${behindMs} ms ago`;
  const last =
    lastEnqueuedAt === null
      ? ''
      : `, ${countOf(lastEnqueued, 'row')} put on the queue again at ${lastEnqueuedAt}`;
  return `${upTo}, last round ${roundAgoMs} ms ago, ${countOf(missing, 'row')} missing${last}`;
}

function describeCut({ transactions, since, lastAt }: CutStatus): string {
  const larger = `larger than atomicRows or atomicBytes, visible in parts`;
  return `${countOf(transactions, 'transaction')} since ${since}, the last at ${lastAt}: ${larger}`;
}

function formatBytes(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  const power = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log(bytes) / Math.log(1024)), units.length - 1);
  if (power === 0) return countOf(bytes, 'byte');
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power]}`;
}
