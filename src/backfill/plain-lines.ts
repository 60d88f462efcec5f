import { parse as parseOnce } from 'csv-parse/sync';
import { countOf } from '../observe/count-of.ts';
import type { FileRow, UnreadRow } from './file-row.ts';

/** Lines of a CSV file, each a record of its own, which a parser and COPY read alike: they can be written without looking into them. */
export interface PlainLines {
  /** The fields that the header names; the same array for all lines of a file. */
  readonly columns: readonly string[];
  /** Of the first one, in the file. */
  readonly line: number;
  readonly rows: number;
  /** Each ends with a line feed. */
  readonly text: string;
}

/** A field that is quoted is quoted as a whole. */
const wellQuoted = /^(?:"[^"]*(?:""[^"]*)*"|[^",]*)(?:,(?:"[^"]*(?:""[^"]*)*"|[^",]*))*$/;

/** Characters; an expression that matches quote by quote runs out of stack one day. */
const longestMatched = 100_000;

/** `\.` alone ends the data for some servers, an empty line is a row for COPY and none for a parser. */
const doubtful = /["\r]|^\n|\n\n|^\\\.$/m;

/** How much of a text of whole lines is plain: up to the first line that is not. */
export function plainPart(text: string, isCrlf: boolean): number {
  if (!isCrlf && !doubtful.test(text)) return text.length;
  for (let at = 0; ;) {
    const end = text.indexOf('\n', at);
    if (end < 0) return at;
    const line = text.slice(at, end);
    if (isCrlf ? !line.endsWith('\r') || !isPlain(line.slice(0, -1)) : !isPlain(line)) return at;
    at = end + 1;
  }
}

export function isPlain(line: string): boolean {
  if (line === '' || line === '\\.' || line.includes('\r')) return false;
  return !line.includes('"') || (line.length <= longestMatched && wellQuoted.test(line));
}

export function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
  return count;
}

export function joinLines(first: PlainLines, second: PlainLines): PlainLines {
  return { ...first, rows: first.rows + second.rows, text: first.text + second.text };
}

/** The first so many, and the others where there are some. */
export function cutLines(lines: PlainLines, rows: number): [PlainLines, PlainLines | undefined] {
  if (rows >= lines.rows) return [lines, undefined];
  let end = 0;
  for (let row = 0; row < rows; row += 1) end = lines.text.indexOf('\n', end) + 1;
  const { text, line } = lines;
  return [
    { ...lines, rows, text: text.slice(0, end) },
    { ...lines, rows: lines.rows - rows, line: line + rows, text: text.slice(end) },
  ];
}

/** The same as records. */
export function recordsOf({ columns, line, text }: PlainLines): (FileRow | UnreadRow)[] {
  return text
    .slice(0, -1)
    .split('\n')
    .map((each, place) => recordOf(columns, line + place, fieldsOf(each)));
}

function recordOf(columns: readonly string[], line: number, fields: (string | null)[]): FileRow | UnreadRow {
  if (fields.length !== columns.length) return wrongCount(line, fields, columns.length);
  const values = Object.fromEntries(columns.map((name, place) => [name, fields[place]!]));
  return { line, values, isHeaded: true };
}

export function wrongCount(line: number, fields: readonly unknown[], named: number): UnreadRow {
  const problem = `it has ${countOf(fields.length, 'field')}, and the header names ${named}`;
  return { line, problem, raw: fields };
}

export function fieldsOf(line: string): (string | null)[] {
  return line.includes('"') ? readQuoted(line) : line.split(',').map((text) => text || null);
}

/** An empty field is null, unless it was quoted. */
export function readQuoted(record: string): (string | null)[] {
  const records = parseOnce(record, {
    skipEmptyLines: true,
    cast: (text, { quoting }) => (text === '' && !quoting ? null : text),
  }) as unknown as (string | null)[][];
  return records[0]!;
}
