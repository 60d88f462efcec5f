import { sqlState } from '../db/sqlstate.ts';
import { EmendError, isEmendError } from '../errors.ts';

/** What ended a connection, as a code that decides whether to try again, with a remedy that recovers when it is followed. */
export function toSourceError(error: unknown, slot: string): EmendError {
  if (isEmendError(error)) return error;
  const code = sqlState(error);
  const said = error instanceof Error && error.message !== '' ? error.message : (code ?? 'no reason given');
  if (code === '55006') return slotInUse(slot);
  if (code === '42704') return isAboutSlot(error) ? slotGone(slot) : decodedWithoutPublication(slot, error);
  if (code === '42501' || code?.startsWith('28') === true) {
    return new EmendError('permission_missing', `the source refuses the reader: ${said}`, {
      remedy:
        'Check user and password of the replication URL; its role needs REPLICATION and a line in pg_hba.conf.',
      cause: error,
    });
  }
  return new EmendError(
    'source_unavailable',
    `the replication connection ended or could not start: ${said}`,
    {
      remedy: 'Check that the source runs and is reachable; the reader tries again by itself.',
      cause: error,
    },
  );
}

export function slotInUse(slot: string, pid?: number): EmendError {
  const holder = pid === undefined ? '' : ` (process ${pid} of the source)`;
  return new EmendError('slot_in_use', `another reader has slot ${slot}${holder}`, {
    remedy: 'Nothing has to be done: this reader takes over when the other one ends.',
  });
}

/** A slot and a publication that are missing have one SQLSTATE, and messages are translated: the server's function tells. */
function isAboutSlot(error: unknown): boolean {
  return (error as { routine?: string }).routine?.startsWith('ReplicationSlot') === true;
}

/** Between the making of a slot and its use. */
export function slotGone(slot: string): EmendError {
  return new EmendError('source_unavailable', `slot ${slot} has gone while it was about to be read`, {
    remedy: 'Nothing has to be done: the reader makes it again. See who drops it if it happens often.',
  });
}

/** PostgreSQL 15 to 17 look for the publication as it was at the position that they decode, so it never comes back there. */
function decodedWithoutPublication(slot: string, cause: unknown): EmendError {
  return new EmendError('publication_missing', `slot ${slot} stands where the publication did not exist`, {
    remedy:
      `Run \`emend migrate\`, drop the slot (select pg_drop_replication_slot('${slot}')) and start the reader again: it creates the slot. ` +
      'Rows that were committed in between are in the log; `emend sweep` brings them.',
    cause,
  });
}
