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
const idsPerAsk = 5_000;

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
  for (let start = 0; start < rows.length; start += idsPerAsk)
    missing.push(...(await ask(store, rows.slice(start, start + idsPerAsk))));
  return missing;
}

/**
 * The same for rows that were missing before, in the order in which they were put on the queue. They have their effect in about
 * that order: behind some of which none had it, the others are taken to be missing still, and asked for another time. Only where
 * nothing at all happened all of them are asked for: it may be the first ones alone that are stuck.
 */
export async function stillWithoutEffect<R extends LogRow>(
  store: ClientBase,
  rows: readonly R[],
): Promise<R[]> {
  const missing: R[] = [];
  for (let start = 0; start < rows.length; start += idsPerAsk) {
    const page = rows.slice(start, start + idsPerAsk);
    const left = await ask(store, page);
    missing.push(...left);
    const asked = start + page.length;
    if (left.length === page.length && missing.length < asked) return [...missing, ...rows.slice(asked)];
  }
  return missing;
}

async function ask<R extends LogRow>(store: ClientBase, rows: readonly R[]): Promise<R[]> {
  const ids = rows.map(({ id }) => String(id));
  const found = await withoutEffect(store, {
    ids,
    nonces: rows.map(({ nonce }) => nonce),
    targets: rows.map(({ target }) => target),
  });
  if (found.length === rows.length) return [...rows];
  const missing = new Set(found);
  return rows.filter((_, place) => missing.has(ids[place]!));
}
