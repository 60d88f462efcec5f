/** The only place that writes to stdout. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** One line, so that it can be read line by line. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** One line on stderr that moves, where somebody looks on. */
export function showProgress(what: string): { show(text: string): void; end(): void } {
  const { stderr } = process;
  return {
    show: (text) => {
      if (stderr.isTTY) stderr.write(`\r\u001b[2K${what}: ${text}`);
    },
    end: () => {
      if (stderr.isTTY) stderr.write('\r\u001b[2K');
    },
  };
}
