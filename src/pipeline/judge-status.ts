import type { Problem } from '../errors.ts';
import { judgeSweep } from './sweep-status.ts';
import type { SlotStatus, Status } from './status-report.ts';

/** The ticker moves the settled time twenty times a second; a merge that runs longer than this deserves a look. */
const settledLagMs = 10_000;

/** A reader that keeps up is a few megabytes behind at most. */
const slotLagBytes = 1_073_741_824;

/** What is not as it should be, and what to do about it. */
export function judgeStatus(status: Omit<Status, 'problems'>): Problem[] {
  return [
    ...judgeSlot(status.slot),
    ...judgeTargets(status),
    ...judgeSettled(status),
    ...judgeQueue(status),
    ...judgeSweep(status.sweep),
  ];
}

function judgeSlot(slot: SlotStatus | null): Problem[] {
  const path = 'slot';
  if (!slot) {
    return [{ path, problem: 'there is no replication slot', remedy: 'Run emend migrate, which makes it.' }];
  }
  const problems: Problem[] = [];
  if (!slot.active) {
    problems.push({
      path,
      problem: 'no reader is connected',
      remedy: 'Start one: emend start, or emend reader.',
    });
  }
  if (slot.walStatus === 'lost') {
    problems.push({
      path,
      problem: 'the server has thrown away WAL that was not read yet',
      remedy: `Drop the slot (select pg_drop_replication_slot('${slot.name}')), run emend migrate, and raise max_slot_wal_keep_size.`,
    });
  } else if (slot.walStatus === 'unreserved') {
    problems.push({
      path,
      problem: 'the server is about to throw away WAL that was not read yet',
      remedy: 'Let a reader catch up now, and raise max_slot_wal_keep_size.',
    });
  } else if (slot.active && slot.lagBytes > slotLagBytes) {
    problems.push({
      path,
      problem: `the reader is ${slot.lagBytes} bytes behind`,
      remedy: 'If it does not shrink: look for errors in the log of the reader, and at the queue.',
    });
  }
  return problems;
}

function judgeTargets({ targets }: Omit<Status, 'problems'>): Problem[] {
  return targets.flatMap(({ name, migrated, setAside }) => {
    const path = `targets.${name}`;
    if (!migrated) return [{ path, problem: 'has not been migrated', remedy: 'Run emend migrate.' }];
    if (setAside === 0) return [];
    return [
      {
        path,
        problem: `${setAside} log rows were set aside`,
        remedy: `Read why: emend dead list --target ${name}. Mend what is in the way and retry them (emend dead retry), or write a right row and discard them (emend dead discard).`,
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
      remedy: 'Start a worker (emend start, or emend worker), or look for a merge that runs for long.',
    },
  ];
}

function judgeQueue({ queue }: Omit<Status, 'problems'>): Problem[] {
  if ('reachable' in queue || queue.delayed === 0) return [];
  return [
    {
      path: 'queue',
      problem: `${queue.delayed} batches could not be merged and are tried again`,
      remedy: 'The log of the workers says why.',
    },
  ];
}
