/**
 * Texts as one parameter of type text[], in the form that Postgres reads. pg makes the same of an array, with a look at each
 * character of each element; here the whole column is looked at, and elements only where something has to be escaped.
 */
export function arrayText(texts: readonly (string | null)[]): string {
  if (texts.length === 0) return '{}';
  const all = texts.join('');
  const isPlain = !texts.includes(null) && !all.includes('"') && !all.includes('\\');
  return isPlain ? `{"${texts.join('","')}"}` : `{${texts.map(elementText).join(',')}}`;
}

function elementText(text: string | null): string {
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}
