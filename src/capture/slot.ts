import type { ClientBase } from 'pg';
import { parseLsn } from '../change/lsn.ts';
import type { Lsn } from '../change/lsn.ts';
import { literal } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import { replicationName } from './names.ts';

/** Replication connections know no parameters, so the statements here are built with literals. */
type Client = Pick<ClientBase, 'query'>;

type SlotState =
  | { readonly kind: 'missing' }
  /** Nothing can be read from it any more: the server has removed what it needed, or is itself an older state than the slot. */
  | { readonly kind: 'lost'; readonly reason: string }
  | { readonly kind: 'in_use'; readonly pid: number; readonly confirmed: Lsn }
  | { readonly kind: 'ready'; readonly confirmed: Lsn };

interface SlotRow {
  readonly plugin: string | null;
  readonly database: string | null;
  readonly active_pid: number | null;
  readonly wal_status: string | null;
  readonly restart_lsn: string | null;
  readonly confirmed_flush_lsn: string | null;
  /** The end of the WAL; null on a standby. */
  readonly wal_end: string | null;
  /** PostgreSQL 16 and later. */
  readonly conflicting?: boolean | null;
  /** PostgreSQL 17 and later. */
  readonly invalidation_reason?: string | null;
}

/** @throws EmendError `server_unsuitable` if the name belongs to somebody else's slot. */
export async function slotState(client: Client, slot: string): Promise<SlotState> {
  const found = await readSlot(client, slot);
  if (!found) return { kind: 'missing' };
  const { row, database } = found;
  if (row.plugin !== 'pgoutput' || row.database !== database) {
    throw new EmendError(
      'server_unsuitable',
      `slot ${slot} belongs to ${row.plugin ?? 'a standby'}, database ${row.database ?? '-'}; emend needs it for pgoutput in ${database}`,
      { remedy: `Let that one go on under another name: emend's slot has to be called ${slot}.` },
    );
  }
  const reason = lossOf(row);
  if (reason !== undefined) return { kind: 'lost', reason };
  const confirmed = parseLsn(row.confirmed_flush_lsn ?? '0/0');
  if (row.active_pid !== null) return { kind: 'in_use', pid: row.active_pid, confirmed };
  return { kind: 'ready', confirmed };
}

/** Why a slot is lost that stands behind the end of its source's WAL: the source is an older state of itself. */
export const aheadOfSource = 'ahead_of_source';

function lossOf(row: SlotRow): string | undefined {
  if (row.invalidation_reason) return row.invalidation_reason;
  if (row.wal_status === 'lost') return 'wal_removed';
  if (row.conflicting === true) return 'rows_removed';
  // A slot that is just being created by somebody has no position either; then it is in use.
  if (row.restart_lsn === null && row.active_pid === null) return 'no_restart_position';
  // what commits before that position would never be sent
  if (isAhead(row)) return aheadOfSource;
  return undefined;
}

function isAhead({ confirmed_flush_lsn: confirmed, wal_end: end }: SlotRow): boolean {
  return confirmed !== null && end !== null && parseLsn(confirmed) > parseLsn(end);
}

/** As jsonb, because the view's columns differ from version to version. */
async function readSlot(
  client: Client,
  slot: string,
): Promise<{ row: SlotRow; database: string } | undefined> {
  const { rows } = await client.query<{ slot: string; database: string }>(
    `select (to_jsonb(s) || jsonb_build_object(
              'wal_end', case when not pg_is_in_recovery() then pg_current_wal_insert_lsn()::text end))::text as slot,
            current_database()::text as database
     from pg_replication_slots s
     where s.slot_name = ${literal(replicationName(slot))}`,
  );
  const found = rows[0];
  return found && { row: JSON.parse(found.slot) as SlotRow, database: found.database };
}

const creationTimeoutMs = 10_000;

/** What has been done for the slot. `replaced`: it was lost, for that reason, and has been made again. */
type SlotMade =
  | { readonly kind: 'present' }
  | { readonly kind: 'created' }
  | { readonly kind: 'replaced'; readonly reason: string };

/**
 * Creates the slot unless it is there, also in place of one from which nothing can be read any more. What was committed before
 * it is in no stream: whoever made it asks the sweep. The publication has to be there before: at a position where it did not
 * exist yet, decoding would fail for ever.
 *
 * @throws EmendError `timed_out` while a transaction that has written is open: the slot can only begin after it.
 */
export async function ensureSlot(client: Client, { slot }: { slot: string }): Promise<SlotMade> {
  const state = await slotState(client, slot);
  if (state.kind === 'ready' || state.kind === 'in_use') return { kind: 'present' };
  try {
    if (state.kind === 'lost') await dropSlot(client, slot);
    await createSlot(client, slot);
    return state.kind === 'lost' ? { kind: 'replaced', reason: state.reason } : { kind: 'created' };
  } catch (error) {
    // another reader was faster
    if (sqlState(error) === '42710') return { kind: 'present' };
    if (sqlState(error) === '57014') throw await waitedInVain(client, slot, error);
    throw error;
  }
}

async function dropSlot(client: Client, slot: string): Promise<void> {
  try {
    await client.query(`select pg_drop_replication_slot(${literal(replicationName(slot))})`);
  } catch (error) {
    if (sqlState(error) !== '42704') throw error; // another reader was faster
  }
}

/** Runs in a transaction for `set local` alone; it has written nothing, which the function insists on. */
async function createSlot(client: Client, slot: string): Promise<void> {
  const version = await client.query<{ server_version_num: string }>('show server_version_num');
  // With failover the slot follows a promotion (PostgreSQL 17 and later); two_phase stays off, so that a prepared
  // transaction comes when it is committed.
  const followsFailover = Number(version.rows[0]?.server_version_num) >= 170_000;
  const options = followsFailover ? 'false, false, true' : 'false, false';
  await client.query('begin');
  try {
    await client.query(`set local statement_timeout = ${creationTimeoutMs}`);
    await client.query(
      `select slot_name from pg_create_logical_replication_slot(${literal(replicationName(slot))}, 'pgoutput', ${options})`,
    );
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

async function waitedInVain(client: Client, slot: string, cause: unknown): Promise<EmendError> {
  const blocker = await oldestWriter(client);
  return new EmendError(
    'timed_out',
    `slot ${slot} could not be created within ${creationTimeoutMs / 1_000} s: it has to wait for ${blocker}`,
    {
      remedy:
        'Let that transaction end, or end it (pg_terminate_backend, rollback prepared); then try again.',
      cause,
    },
  );
}

/** Every open transaction of the cluster that has written holds a new slot back, prepared ones too. */
async function oldestWriter(client: Client): Promise<string> {
  const { rows } = await client.query<{ writer: string }>(
    `select writer.name || ', open for ' || date_trunc('second', clock_timestamp() - writer.since)::text as writer
     from (
       select format('process %s (%s)', a.pid, a.application_name) as name, a.xact_start as since
       from pg_stat_activity a
       where a.backend_xid is not null and a.pid <> pg_backend_pid()
       union all
       select format('prepared transaction %L', p.gid), p.prepared
       from pg_prepared_xacts p
     ) as writer
     order by writer.since
     limit 1`,
  );
  return rows[0]?.writer ?? 'a transaction that has ended just now';
}
