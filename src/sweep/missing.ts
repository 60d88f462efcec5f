import type { ClientBase } from 'pg';
import { withoutEffect } from '../store/ledger.ts';
import type { LogRow, PageDigest } from './log-pages.ts';

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

/**
 * Whether everything that the logs have under the numbers of this page has had its effect: the ledger has as many rows there, with
 * the same nonces, which are random. Of a healthy system no row is read for it.
 */
export async function isMerged(
  store: ClientBase,
  targets: readonly string[],
  { firstId, lastId, digest }: PageDigest,
): Promise<boolean> {
  const { rows } = await store.query<{ digest: string }>(
    `select count(*) || ' ' || bit_xor(l._nonce) as digest
     from emend.ledger_between($1::bigint, $2::bigint) l
     where l._backfill is null and l.target = any($3::text[])`,
    [String(firstId), String(lastId), targets],
  );
  return rows[0]?.digest === digest;
}

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
