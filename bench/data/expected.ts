import type { Pool } from 'pg';
import type { Correction } from './corrections.ts';

/** What the table has to say in the end, found in another way than by any contestant. */
export interface Expected {
  add(corrections: readonly Correction[]): void;
  /** @throws unless the table says the same, row by row, value by value */
  check(pool: Pool): Promise<void>;
}
