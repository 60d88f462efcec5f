import type { Problem } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { judgeArchives } from './archive-status.ts';
import { judgeBackfills } from './backfill-status.ts';
import { judgeDiverged } from './diverged-status.ts';
import { judgeReaders } from './slot-status.ts';
import { judgeSweep } from './sweep-status.ts';
import type { Status } from './status-report.ts';

/** The ticker moves the settled time twenty times a second; a merge that runs longer than this deserves a look. */
const settledLagMs = 10_000;

/** What is not as it should be, and what to do about it. */
export function judgeStatus(status: Omit<Status, 'problems'>): Problem[] {
  return [
    ...judgeReaders(status),
    ...judgeTargets(status),
    ...judgeDiverged(status.diverged),
    ...judgeArchives(status.lackingArchives),
    ...judgeBackfills(status.backfills),
    ...judgeSettled(status),
    ...judgeQueue(status),
    ...judgeSweep(status.sweep),
  ];
}

function judgeTargets({ targets }: Omit<Status, 'problems'>): Problem[] {
  return targets.flatMap(({ name, migrated, setAside }) => {
    const path = `targets.${name}`;
    if (!migrated) return [{ path, problem: 'has not been migrated', remedy: 'Run emend migrate.' }];
    if (setAside === 0) return [];
    return [
      {
        path,
        problem: `${countOf(setAside, 'log row is', 'log rows are')} set aside`,
        remedy: `Read why: emend dead list --target ${name}. Mend what is in the way, then emend dead retry; or write a right row, then emend dead discard.`,
      },
    ];
  });
}

function judgeSettled({ settled }: Omit<Status, 'problems'>): Problem[] {
  if (settled.lagMs <= settledLagMs) return [];
  return [
    {
      path: 'settled',
      problem: `answers about the past are final only up to ${settled.at}`,
      remedy:
        'Start a worker (emend start, or emend worker), or look for a merge or a promote that runs for long.',
    },
  ];
}

function judgeQueue({ queue }: Omit<Status, 'problems'>): Problem[] {
  if ('reachable' in queue || queue.delayed === 0) return [];
  return [
    {
      path: 'queue',
      problem: `${countOf(queue.delayed, 'batch', 'batches')} could not be merged, to be tried again`,
      remedy: 'The log of the workers says why.',
    },
  ];
}
