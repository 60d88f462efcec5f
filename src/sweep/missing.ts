import type { ClientBase } from 'pg';
import { withoutEffect } from '../store/ledger.ts';
import type { LogRow } from './log-pages.ts';

/** A committed log row that has had no effect yet. */
export interface MissingRow extends LogRow {
  /** Found in the first comparison with this source, whatever its `_xid` says. */
  readonly isEarly: boolean;
  /** On this process's monotonic clock. */
  readonly noticedAt: number;
  /** When the sweep put it on the queue last. */
  sentAt: number | undefined;
  /** Its text on the queue. */
  bytes: number;
}

/** Ids asked for in one statement. */
const idsPerAsk = 10_000;

/** Of these rows of the logs, those that have had no effect in the store. */
export async function withoutEffectOf<R extends LogRow>(store: ClientBase, rows: readonly R[]): Promise<R[]> {
  const missing: R[] = [];
  for (let start = 0; start < rows.length; start += idsPerAsk) {
    const page = rows.slice(start, start + idsPerAsk);
    const ids = new Set(
      await withoutEffect(
        store,
        page.map(({ target, id, nonce }) => ({ target, id: String(id), nonce })),
      ),
    );
    if (ids.size > 0) missing.push(...page.filter(({ id }) => ids.has(String(id))));
  }
  return missing;
}
