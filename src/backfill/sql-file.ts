import type { Findings } from '../config/findings.ts';
import { closest } from '../config/closest.ts';

/**
 * A backfill file in SQL: a header of comments, `-- name: value`, and a select.
 *
 *     -- target: fares
 *     -- reason: contract 17
 *     -- from: 2026-09-01
 *     -- to: 2026-10-01
 *     select route, date '2026-09-01' as valid_from, … from public.contract
 *
 * The header ends with the first line that is no comment. A line that begins with `--` and two or more blanks goes on with the
 * value above it. Returns what a file in TypeScript would export.
 */
export function parseSqlFile(content: string, findings: Findings): Record<string, unknown> {
  const { header, body } = splitHeader(content.replaceAll('\r\n', '\n'), findings);
  const one = (name: string): string | undefined => header.find((entry) => entry.name === name)?.value;
  const named = (prefix: string): Record<string, string> | undefined => {
    const entries = header.filter(({ name }) => name.startsWith(`${prefix}.`));
    if (entries.length === 0) return undefined;
    return Object.fromEntries(entries.map(({ name, value }) => [name.slice(prefix.length + 1), value]));
  };
  const target = one('target');
  const limits = defined({ from: one('from'), to: one('to'), where: one('where') });
  const files = header.filter(({ name }) => name === 'raw-input').map(({ value }) => value);
  const thresholds = named('threshold');
  if (target === undefined) findings.add('target', 'is missing', 'Write it in the header: -- target: fares');
  if (body === '')
    findings.add('select', 'is missing', 'Write the select that gives the rows behind the header.');
  return defined({
    targets: [target ?? 'target'],
    reason: one('reason'),
    logicVersion: one('logic-version'),
    boundary: Object.keys(limits).length > 0 ? { [target ?? 'target']: limits } : undefined,
    origin: defined({ input: one('origin'), files: files.length > 0 ? files : undefined }),
    rows: { sql: body === '' ? 'select' : body, on: one('on') ?? 'source' },
    checks: defined({
      sql: named('check'),
      samples: one('samples'),
      thresholds:
        thresholds &&
        Object.fromEntries(Object.entries(thresholds).map(([name, value]) => [name, Number(value)])),
    }),
    accept: named('accept'),
  });
}

interface Entry {
  readonly name: string;
  readonly value: string;
}

const single = [
  'target', 'reason', 'from', 'to', 'where', 'on', 'logic-version', 'origin', 'raw-input', 'samples',
]; // prettier-ignore
const prefixes = ['check', 'threshold', 'accept'];

/** Of the checks that are of a column each, it belongs to the name: `-- accept.null_share:price: no price is known before May`. */
const headerLine = /^--\s?((?:accept|threshold)\.(?:null_share|sum):[^\s:][^:]*|[a-z][\w.-]*):\s*(.*)$/i;

function splitHeader(content: string, findings: Findings): { header: Entry[]; body: string } {
  const lines = content.split('\n');
  const end = lines.findIndex((line) => !line.startsWith('--'));
  const header: { name: string; value: string }[] = [];
  lines.slice(0, end < 0 ? lines.length : end).forEach((line, place) => {
    const where = `line ${place + 1}`;
    const entry = headerLine.exec(line);
    if (entry) {
      const [, name, value] = entry as unknown as [string, string, string];
      if (!isKnown(name)) findings.add(where, `${name} is not known in a header`, meant(name));
      else if (name !== 'raw-input' && header.some((before) => before.name === name))
        findings.add(where, `${name} is stated twice`, 'State it once.');
      header.push({ name, value: value.trim() });
    } else if (/^--\s{2,}\S/.test(line) && header.length > 0)
      header.at(-1)!.value += `\n${line.slice(2).trim()}`;
    else
      findings.add(
        where,
        'is neither "name: value" nor goes on with the value above it',
        'Leave a blank line between the header and other comments.',
      );
  });
  const body = end < 0 ? '' : lines.slice(end).join('\n').trim().replace(/;+$/, '');
  return { header, body };
}

function isKnown(name: string): boolean {
  return single.includes(name) || prefixes.some((prefix) => name.startsWith(`${prefix}.`));
}

function meant(name: string): string {
  const near = closest(name, single);
  return near
    ? `Did you mean ${near}?`
    : `Known: ${[...single, ...prefixes.map((prefix) => `${prefix}.<name>`)].join(', ')}.`;
}

/** Without what is undefined. */
function defined(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
