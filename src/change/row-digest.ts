import { createHash } from 'node:crypto';

/**
 * The digest of a log row as SQL: 8 bytes of md5 over its texts. Source and store compute it from the same texts, so that a
 * backfill is complete in the store when count and sum are the sealed ones.
 *
 * A text carries its length, so that no two rows run together into one; null is told from every text. Not hashtext(): it may
 * change with a major version. In UTF-8, since the two databases may have different encodings.
 *
 * @param texts SQL expressions of type text: `_id`, `_op`, then `statedColumns(target)` in order, as read under pinned
 *   settings (`db/session.ts`)
 * @returns SQL of type bigint. A backfill's digest is `sum(…)` over its rows, which Postgres gives as numeric.
 */
export function rowDigest(texts: readonly string[]): string {
  const parts = texts.map((text) => `coalesce(length(${text})::text || ':' || ${text}, '-')`);
  return `('x' || left(md5(convert_to(${parts.join(' || ')}, 'UTF8')), 16))::bit(64)::bigint`;
}

/** The same of texts in this process, as a signed 64-bit number. */
export function digestOfTexts(texts: readonly (string | null)[]): bigint {
  const parts = texts.map((text) => (text === null ? '-' : `${lengthOf(text)}:${text}`));
  return createHash('md5').update(parts.join(''), 'utf8').digest().readBigInt64BE(0);
}

/** In characters, as Postgres counts: a pair of surrogates is one. */
function lengthOf(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff]/g)?.length ?? 0);
}
