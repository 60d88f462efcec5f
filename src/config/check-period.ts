import type { ColumnReader } from './column-reader.ts';
import { kindOf } from './findings.ts';
import type { Findings } from './findings.ts';
import type { TargetDeclaration } from './target-declaration.ts';

/** Two columns are a period by themselves; one is a start that holds until the next. */
export function checkPeriod(
  target: Record<string, unknown>,
  columns: ColumnReader,
  findings: Findings,
): TargetDeclaration['period'] {
  const path = `${columns.path}.period`;
  const remedy =
    "Write period: ['valid_from', 'valid_to'], or period: ['valid_from'] where each holds until the next.";
  const value = target['period'];
  // first of all: what is said of them does not depend on the rest
  const closed = findings.boolean(target['closed'], `${columns.path}.closed`);
  const open = openEnd(target['openEnd'], columns.path, findings);
  if (!Array.isArray(value) || value.length < 1 || value.length > 2) {
    findings.add(path, `is ${kindOf(value)}, not one or two columns`, remedy);
    return null;
  }
  if (value.length === 2 && value[0] === value[1]) {
    findings.add(path, `begins and ends with the same column`, remedy);
    return null;
  }
  const [from, to] = columns.list(value, 'period', "period: ['valid_from', 'valid_to']");
  const mode = target['mode'] ?? (value.length === 1 ? 'until_next' : 'override');
  if (mode !== 'override' && mode !== 'until_next') {
    findings.add(`${columns.path}.mode`, 'is no mode', "Write mode: 'override' or mode: 'until_next'.");
    return null;
  }
  if (mode === 'override' && value.length === 1) {
    findings.add(`${columns.path}.mode`, "'override' needs both ends of the period", remedy);
    return null;
  }
  if (from === undefined) return null;
  const end = to ?? endColumn(from);
  if (end === null) {
    findings.add(
      path,
      `does not name the column where the end is kept`,
      `Write period: ['${from}', '<end column>'], mode: 'until_next'.`,
    );
    return null;
  }
  return { from, to: end, mode, closed, ...open };
}

/** Left out, it is the axis' own: `infinity`. */
function openEnd(value: unknown, path: string, findings: Findings): { openEnd?: string | null } {
  if (value === undefined) return {};
  if (value === null || (typeof value === 'string' && value !== '')) return { openEnd: value };
  findings.add(`${path}.openEnd`, `is ${kindOf(value)}`, "Write a text such as '9999-12-31', or null.");
  return {};
}

/** The end column of `period: ['valid_from']`: the same name with `to` for `from`, or `end` for `start`. */
function endColumn(from: string): string | null {
  const match = /^(?:(.*_)?from|(.*_)?start)$/.exec(from);
  if (!match) return null;
  return from.endsWith('from') ? `${match[1] ?? ''}to` : `${match[2] ?? ''}end`;
}
