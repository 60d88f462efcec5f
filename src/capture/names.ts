import { EmendError } from '../errors.ts';

/** Schema of the value logs in the source. */
export const logSchema = 'corrections';

/**
 * Slots are cluster-wide, so their names carry the install's id: two installs on one cluster must never share one. The first
 * share has the name that the slot of a single reader has, so that a number of readers may change and the slot goes on.
 */
export function slotName(installId: string, share = 1): string {
  return replicationName(share === 1 ? `emend_${installId}` : `emend_${installId}_${share}`);
}

/** That of its slot. */
export function publicationName(installId: string, share = 1): string {
  return slotName(installId, share);
}

/** Postgres allows more in a publication's name, but `publication_names` is a list inside a text inside a command. */
export function replicationName(name: string): string {
  if (/^[a-z0-9_]{1,63}$/.test(name)) return name;
  throw new EmendError(
    'bad_arguments',
    `${JSON.stringify(name)} cannot name a replication slot or a publication`,
    { remedy: 'Use 1 to 63 characters of a-z, 0-9 and _.' },
  );
}
