import { createHash } from 'node:crypto';

/** A function of Postgres takes 100 arguments. */
const valuesOfOneCall = 90;

/**
 * The digest of a log row as SQL: 8 bytes of md5 over its texts. Source and store compute it from the same texts, so that a
 * backfill is complete in the store when count and sum are the sealed ones.
 *
 * Each text stands as a quoted literal, so that no two rows run together into one, and null is told from every text. `format`
 * takes the text that everybody who reads the value gets; a cast to text may give another one (`t` and `true`, blanks at the end
 * of a `char(3)`). Not hashtext(): it may change with a major version. In UTF-8, since the two databases may have different
 * encodings.
 *
 * @param values SQL expressions: `_id`, `_op`, then `statedColumns(target)` in order, or their texts as read under pinned
 *   settings (`db/session.ts`)
 * @returns SQL of type bigint. A backfill's digest is `sum(…)` over its rows, which Postgres gives as numeric.
 */
export function rowDigest(values: readonly string[]): string {
  const calls: string[] = [];
  for (let first = 0; first < values.length; first += valuesOfOneCall) {
    const some = values.slice(first, first + valuesOfOneCall);
    calls.push(`format('${some.map(() => '%L').join(',')}', ${some.join(', ')})`);
  }
  return digestOf(calls);
}

/** The same of SQL expressions of type text, which need no output function: quoting alone is a sixth cheaper. */
export function textsDigest(texts: readonly string[]): string {
  return digestOf(texts.map((text) => `quote_nullable(${text})`));
}

/** Asked once a statement: most databases have nothing to convert, which is a sixth of the work. */
function digestOf(literals: readonly string[]): string {
  const row = joined(literals);
  const hash = `case when (select getdatabaseencoding() = 'UTF8') then md5(${row}) else md5(convert_to(${row}, 'UTF8')) end`;
  return `('x' || ${hash})::bit(64)::bigint`;
}

/** In halves, so that a long text is not copied once for each column behind it. */
function joined(literals: readonly string[]): string {
  if (literals.length === 1) return literals[0]!;
  const middle = literals.length >> 1;
  return `(${joined(literals.slice(0, middle))} || ',' || ${joined(literals.slice(middle))})`;
}

/** The same of texts in this process, as a signed 64-bit number. */
export function digestOfTexts(texts: readonly (string | null)[]): bigint {
  const literals = texts.map((text) => (text === null ? 'NULL' : quoted(text)));
  return createHash('md5').update(literals.join(','), 'utf8').digest().readBigInt64BE(0);
}

/** As `quote_literal` does it. */
function quoted(text: string): string {
  const doubled = `'${text.replaceAll("'", "''")}'`;
  return text.includes('\\') ? `E${doubled.replaceAll('\\', '\\\\')}` : doubled;
}
