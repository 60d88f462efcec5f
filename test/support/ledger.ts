import type { Pool } from 'pg';
import { compactStretch } from '../../src/sweep/compact.ts';

/** Moves all that the ledger has of the first 4,096 numbers to a block, however recent. One at a time, as the leading sweep does. */
export function compactWhole(store: Pool): Promise<void> {
  return compactStretch(store, { from: 0n, end: 4_096n }, -60_000);
}
