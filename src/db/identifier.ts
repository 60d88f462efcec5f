/** Quoting of names and texts in generated SQL: the one place where a name becomes SQL. */

/** An identifier, always quoted: `order` and `Größe` are fine, and no name can end the statement. */
export function ident(name: string): string {
  if (name.includes('\0')) throw new TypeError('an SQL identifier cannot hold a NUL character');
  return `"${name.replaceAll('"', '""')}"`;
}

export function qualified(schema: string, name: string): string {
  return `${ident(schema)}.${ident(name)}`;
}

/** A text literal for DDL, where parameters are not allowed. Data never goes this way. */
export function literal(text: string): string {
  if (text.includes('\0')) throw new TypeError('an SQL literal cannot hold a NUL character');
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
}

/** Identifiers as a list: `"a", "b"`; with a prefix `t."a", t."b"`. */
export function identList(names: readonly string[], prefix?: string): string {
  return names.map((name) => (prefix ? `${prefix}.${ident(name)}` : ident(name))).join(', ');
}
