import type { ClientBase } from 'pg';
import type { LogRows } from '../change/batch.ts';
import type { Target } from '../change/target.ts';
import { announceK0 } from '../store/clock.ts';
import { refuseFenced } from './fence.ts';
import { lockKeys } from './lock-keys.ts';

/** Keys of one target: the key columns of some rows. */
export interface KeysToTake {
  readonly target: Target;
  /** The target's place in the order of locks. */
  readonly number: number;
  readonly rows: LogRows;
}

/**
 * What everything that changes the belief of keys does first: takes their locks, in the order that it is given (by number),
 * announces K0, and gives way to whoever has a fence around one of them. K may be taken then (`takeK`).
 *
 * READ COMMITTED: each later statement sees what was committed before the locks were held.
 *
 * @throws EmendError `key_fenced`: nothing was done, try again later
 */
export async function takeKeys(client: ClientBase, parts: readonly KeysToTake[]): Promise<void> {
  for (const { target, number, rows } of parts) await lockKeys(client, target, number, rows);
  const fenced = await announceK0(client);
  for (const { target, rows } of parts)
    if (fenced.includes(target.name)) await refuseFenced(client, target, rows);
}
