import type { Pool } from 'pg';
import { planPublication } from '../capture/publication.ts';
import type { Share } from '../capture/publication.ts';
import { slotState } from '../capture/slot.ts';
import { isEmendError } from '../errors.ts';
import type { Problem } from '../errors.ts';
import { findSurplus, readersOf } from './readers.ts';
import type { Reader, ReaderCount } from './readers.ts';

export interface ReaderStatus {
  readonly share: Share;
  /** Null: there is none. */
  readonly slot: SlotStatus | null;
  readonly publication: PublicationStatus;
}

export interface ReadersStatus {
  /** One a share of the configuration. */
  readonly readers: readonly ReaderStatus[];
  /** Slots of more readers than the configuration has: the source keeps WAL for them. */
  readonly surplusSlots: readonly string[];
}

export interface SlotStatus {
  readonly name: string;
  /**
   * `idle`: no reader is connected · `reading` · `taken`: something else than a reader of emend is connected · `lost`: the server
   * has removed what it needed, or is an older state than the slot · `foreign`: another's slot has its name.
   */
  readonly state: 'idle' | 'reading' | 'taken' | 'lost' | 'foreign';
  /** Of a lost or foreign slot why, of a taken one by whom. */
  readonly reason: string | null;
  /** Address and port of whoever is connected, as the source sees them; null where it shows them to members of `pg_monitor` only. */
  readonly connectedFrom: string | null;
  /** `reserved`, `extended`, `unreserved` or `lost`. */
  readonly walStatus: string;
  /** Up to here the queue has everything. */
  readonly confirmed: string | null;
  /** WAL written since. */
  readonly lagBytes: number;
  /** WAL that the server keeps for it. */
  readonly retainedBytes: number;
}

export interface PublicationStatus {
  readonly name: string;
  /** What it lacks, each as a phrase; empty: it is as migrated. */
  readonly missing: readonly string[];
}

/** A reader that keeps up is a few megabytes behind at most. */
const muchLagBytes = 1_073_741_824;
const readerName = 'emend reader';

export async function readReaders(source: Pool, install: string, count: ReaderCount): Promise<ReadersStatus> {
  const { slots } = await findSurplus(source, install, count.readers);
  const readers: ReaderStatus[] = [];
  for (const reader of readersOf(install, count)) {
    readers.push({
      share: reader.share,
      slot: await readSlot(source, reader.slot),
      publication: await readPublication(source, reader),
    });
  }
  return { readers, surplusSlots: slots.map(({ name }) => name) };
}

async function readSlot(source: Pool, name: string): Promise<SlotStatus | null> {
  const { rows } = await source.query<Record<string, string | null>>(
    `select s.wal_status,
            s.confirmed_flush_lsn as confirmed,
            pg_wal_lsn_diff(here.lsn, s.confirmed_flush_lsn) as lag_bytes,
            pg_wal_lsn_diff(here.lsn, s.restart_lsn) as retained_bytes,
            format('%s (process %s)', coalesce(nullif(a.application_name, ''), 'a process without a name'), s.active_pid) as holder,
            (a.application_name = $2)::text as is_reader,
            host(a.client_addr) || ':' || a.client_port as connected_from
     from pg_replication_slots s
     left join pg_stat_activity a on a.pid = s.active_pid
     cross join (
       select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn
     ) as here
     where s.slot_name = $1`,
    [name, readerName],
  );
  const row = rows[0];
  if (!row) return null;
  return {
    name,
    ...(await readState(source, name, { holder: row['holder']!, isReader: row['is_reader'] !== 'false' })),
    connectedFrom: row['connected_from'] ?? null,
    walStatus: row['wal_status'] ?? 'unknown',
    confirmed: row['confirmed'] ?? null,
    lagBytes: Number(row['lag_bytes'] ?? 0),
    retainedBytes: Number(row['retained_bytes'] ?? 0),
  };
}

async function readState(
  source: Pool,
  name: string,
  { holder, isReader }: { holder: string; isReader: boolean },
): Promise<Pick<SlotStatus, 'state' | 'reason'>> {
  try {
    const found = await slotState(source, name);
    if (found.kind === 'lost') return { state: 'lost', reason: found.reason };
    if (found.kind !== 'in_use') return { state: 'idle', reason: null };
    return isReader ? { state: 'reading', reason: null } : { state: 'taken', reason: holder };
  } catch (error) {
    if (!isEmendError(error) || error.code !== 'server_unsuitable') throw error;
    return { state: 'foreign', reason: error.message };
  }
}

async function readPublication(
  source: Pool,
  { publication: name, logs, share }: Reader,
): Promise<PublicationStatus> {
  try {
    const plan = await planPublication(source, { publication: name, targets: logs, share });
    return { name, missing: plan.map(({ purpose }) => purpose) };
  } catch (error) {
    if (!isEmendError(error)) throw error;
    return { name, missing: [error.message] };
  }
}

export function judgeReaders({ readers, surplusSlots }: ReadersStatus): Problem[] {
  return [
    ...readers.flatMap(({ share, slot, publication }) => {
      const of = share.of === 1 ? '' : ` of share ${share.number}`;
      return [...judgeSlot(slot, of), ...judgePublication(publication, of)];
    }),
    ...surplusSlots.map((name) => ({
      path: 'slot',
      problem: `surplus: ${name} is of an earlier configuration with more readers, and the source keeps WAL for it`,
      remedy:
        'Stop the reader that has it, if one runs, and run emend migrate, which drops it; or raise capture.readers again.',
    })),
  ];
}

function judgePublication({ name, missing }: PublicationStatus, of: string): Problem[] {
  if (missing.length === 0) return [];
  return [
    {
      path: `publication${of}`,
      problem: `missing: ${name} is not as migrated (${missing.join('; ')})`,
      remedy: 'Run emend migrate, then start the reader again; the sweep brings what was written without it.',
    },
  ];
}

function judgeSlot(slot: SlotStatus | null, of: string): Problem[] {
  const path = `slot${of}`;
  if (!slot) {
    return [
      {
        path,
        problem: 'missing: there is no replication slot',
        remedy: 'Start a reader, or leave the one that runs alone: it makes the slot within seconds.',
      },
    ];
  }
  const { state, reason, walStatus, lagBytes } = slot;
  if (state === 'lost') {
    return [
      {
        path,
        problem: `lost: the source has given it up (${reason})`,
        remedy:
          'A reader makes it again by itself, and the sweep merges what was not read: start one if none runs. Raise max_slot_wal_keep_size if a reader may be away for so long.',
      },
    ];
  }
  if (state === 'foreign') {
    return [{ path, problem: `foreign: ${reason}`, remedy: 'Let that one go on under another name.' }];
  }
  if (state === 'taken') {
    return [
      {
        path,
        problem: `taken: ${reason} reads it, and is no reader of emend`,
        remedy:
          'End it: what it confirms comes late, by the sweep. A reader of emend waits, and takes over then.',
      },
    ];
  }
  const problems: Problem[] = [];
  if (state === 'idle') {
    problems.push({
      path,
      problem: 'idle: no reader is connected',
      remedy: 'Start one: emend start, or emend reader.',
    });
  }
  if (walStatus === 'unreserved') {
    problems.push({
      path,
      problem: 'unreserved: the server is about to throw away WAL that was not read yet',
      remedy: 'Let a reader catch up now, and raise max_slot_wal_keep_size.',
    });
  } else if (state === 'reading' && lagBytes > muchLagBytes) {
    problems.push({
      path,
      problem: `the reader is ${lagBytes} bytes behind`,
      remedy: 'If it does not shrink: look for errors in the log of the reader, and at the queue.',
    });
  }
  return problems;
}
