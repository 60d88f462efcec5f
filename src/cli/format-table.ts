/** Texts in columns; null is shown as <null>, to be told from an empty text. */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly (string | null)[])[],
): string {
  const lines = [header, ...rows.map((row) => row.map((cell) => (cell === null ? '<null>' : oneLine(cell))))];
  const widths = header.map((_name, index) => Math.max(...lines.map((line) => line[index]!.length)));
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
