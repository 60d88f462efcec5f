/** The only place that writes to stdout. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** One line, so that it can be read line by line. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** One line on stderr that moves, where somebody looks on; what is said stays, also where nobody does. */
export function showProgress(what: string): {
  show(text: string): void;
  say(text: string): void;
  end(): void;
} {
  const { stderr } = process;
  return {
    say: (text) => stderr.write(`${stderr.isTTY ? '\r\u001b[2K' : ''}${what}: ${text}\n`),
    show: (text) => {
      if (stderr.isTTY) stderr.write(`\r\u001b[2K${what}: ${text}`);
    },
    end: () => {
      if (stderr.isTTY) stderr.write('\r\u001b[2K');
    },
  };
}
