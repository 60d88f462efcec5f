import { EmendError } from '../errors.ts';

/** Schema of the value logs in the source. */
export const logSchema = 'corrections';

/**
 * Slots are cluster-wide, so their names carry the install's id: two installs on one cluster must never share one.
 */
export function slotName(installId: string): string {
  return replicationName(`emend_${installId}`);
}

export function publicationName(installId: string): string {
  return replicationName(`emend_${installId}`);
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
