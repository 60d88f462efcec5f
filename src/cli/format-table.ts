/** Texts in columns; null is shown as <null>, to be told from an empty text. */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly (string | null)[])[],
): string {
  const lines = [header, ...rows.map((row) => row.map((cell) => (cell === null ? '<null>' : oneLine(cell))))];
  // no spread: there may be more rows than a call takes arguments
  const widths = header.map((_name, index) =>
    lines.reduce((width, line) => Math.max(width, line[index]!.length), 0),
  );
  const format = (line: readonly string[]): string =>
    line
      .map((cell, index) => cell.padEnd(widths[index]!))
      .join('  ')
      .trimEnd();
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  return [format(lines[0]!), rule, ...lines.slice(1).map(format)].join('\n');
}

function oneLine(cell: string): string {
  return cell.replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t');
}
