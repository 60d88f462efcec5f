/** The text format of COPY: https://www.postgresql.org/docs/current/sql-copy.html, "Text Format". A row is one line, whatever it holds. */

const escapes: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** The fields of one line, as the texts that the server wrote; `\N` is null. */
export function parseCopyLine(line: string): (string | null)[] {
  return line.split('\t').map((field) => {
    if (field === '\\N') return null;
    return field.includes('\\')
      ? field.replaceAll(/\\(.)/g, (_, letter: string) => escapes[letter] ?? letter)
      : field;
  });
}
