import type { Readable, Writable } from 'node:stream';
import { Parser } from 'csv-parse';
import { lineError, unreadable } from './file-row.ts';
import type { FileRow, RowFile, UnreadRow } from './file-row.ts';
import { countLines, fieldsOf, isPlain, plainPart, readQuoted, wrongCount } from './plain-lines.ts';
import type { PlainLines } from './plain-lines.ts';
import { openText } from './text-file.ts';

type Texts = AsyncIterator<string, undefined>;

/**
 * Reads CSV with a header. Lines come as they stand in the file, as long as each is a record that needs no parser; from the
 * first one that does (a line break within quotes, a quote in the middle, an empty line) the parser reads the rest. Which line
 * that is depends on the file alone, not on how its bytes come in.
 */
export async function* readCsv(file: RowFile): AsyncGenerator<PlainLines | FileRow | UnreadRow> {
  const input = openText(file);
  const texts = wholeLines(input);
  let line = 1;
  try {
    const first = (await texts.next()).value ?? '';
    const heading = first.slice(0, first.indexOf('\n'));
    const isCrlf = heading.endsWith('\r');
    const names = isCrlf ? heading.slice(0, -1) : heading;
    if (!isPlain(names)) return yield* parseRest(file, { text: first, texts, line });
    const columns = refuseRepeated(
      file,
      fieldsOf(names).map((name) => name ?? ''),
    );
    line++;
    for (let text: string | undefined = first.slice(heading.length + 1); text !== undefined;) {
      const part = text.slice(0, plainPart(text, isCrlf));
      const rows = countLines(part);
      if (rows > 0) yield { columns, line, rows, text: isCrlf ? part.replaceAll('\r\n', '\n') : part };
      line += rows;
      if (part.length < text.length)
        return yield* parseRest(file, { text: text.slice(part.length), texts, line, columns, isCrlf });
      text = (await texts.next()).value;
    }
  } catch (error) {
    throw unreadable(file, line, error);
  } finally {
    input.destroy();
  }
}

/** Texts that end with a line; the last line of a file may lack its end. */
async function* wholeLines(input: Readable): AsyncGenerator<string, undefined> {
  let held = '';
  for await (const text of input as AsyncIterable<string>) {
    const end = text.lastIndexOf('\n') + 1;
    if (end > 0) {
      yield held + text.slice(0, end);
      held = '';
    }
    held += text.slice(end);
  }
  if (held !== '') yield `${held}\n`;
  return undefined;
}

interface Rest {
  readonly text: string;
  readonly texts: Texts;
  /** Of the first line. */
  readonly line: number;
  /** Left out: the first line is the header, and shows how lines end. */
  readonly columns?: readonly string[];
  readonly isCrlf?: boolean;
}

interface CsvRecord {
  readonly record: Readonly<Record<string, string>>;
  readonly raw: string;
  readonly info: { readonly lines: number; readonly error?: { readonly record: readonly unknown[] } };
}

async function* parseRest(file: RowFile, rest: Rest): AsyncGenerator<FileRow | UnreadRow> {
  let named = rest.columns?.length ?? 0;
  const readHeader = (names: string[]): string[] => {
    named = names.length;
    return refuseRepeated(file, names);
  };
  const parser = new RecordParser({
    columns: rest.columns ? [...rest.columns] : readHeader,
    ...(rest.columns ? { recordDelimiter: rest.isCrlf === true ? '\r\n' : '\n' } : {}),
    info: true,
    // a line with too few or too many fields is given with its error, and reading goes on
    relaxColumnCount: true,
    skipEmptyLines: true,
    raw: true,
  });
  const before = rest.line - 1;
  let line = rest.line;
  const read = ({ record, raw, info }: CsvRecord): FileRow | UnreadRow => {
    line = before + info.lines;
    // named by the line in which it begins
    const first = line - countLines(raw.trim());
    return info.error
      ? wrongCount(first, info.error.record, named)
      : { line: first, values: withNulls(record, raw), isHeaded: true };
  };
  try {
    for await (const failure of parsing(parser, rest)) {
      for (const record of parser.records.splice(0)) yield read(record);
      if (failure) throw failure;
    }
  } catch (error) {
    throw unreadable(file, line + 1, error, before);
  }
}

/** Taken out of it as a stream, records would be lost with an error that comes after them. */
class RecordParser extends Parser {
  readonly records: CsvRecord[] = [];

  override push(record: CsvRecord | null): boolean {
    if (record !== null) this.records.push(record);
    return true;
  }
}

/** Gives the parser one text after the other, and says of each whether it failed. */
async function* parsing(parser: Writable, { text, texts }: Rest): AsyncGenerator<Error | undefined> {
  parser.on('error', () => {}); // whoever gives it the text is told
  const told = (give: (done: (error?: Error | null) => void) => void): Promise<Error | undefined> =>
    new Promise((resolve) => give((error) => resolve(error ?? undefined)));
  for (let next: string | undefined = text; next !== undefined;) {
    const given = next;
    yield await told((done) => parser.write(given, done));
    next = (await texts.next()).value;
  }
  yield await told((done) => parser.end(done));
}

/**
 * An empty field is null, unless it was quoted. Whether it was, the parser tells to `cast` alone, which makes it several times
 * slower: so it is asked only about the records where it matters.
 */
function withNulls(record: CsvRecord['record'], raw: string): FileRow['values'] {
  const fields = Object.entries(record);
  if (fields.every(([, text]) => text !== '')) return record;
  const texts = raw.includes('""') ? readQuoted(raw) : fields.map(([, text]) => text || null);
  return Object.fromEntries(fields.map(([name], place) => [name, texts[place] ?? null]));
}

/** The last of two columns of one name would win in silence. */
function refuseRepeated(file: RowFile, names: string[]): string[] {
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated === undefined) return names;
  throw lineError(file, 1, `the header names column "${repeated}" twice`);
}
