import { kindOf } from './findings.ts';
import type { Findings } from './findings.ts';
import { columnName, isIdentifier } from './table-ref.ts';

/** Reads the names of columns, as the database has them. */
export class ColumnReader {
  readonly path: string;
  readonly #table: unknown;
  readonly #findings: Findings;

  constructor(path: string, table: unknown, findings: Findings) {
    this.path = path;
    this.#table = table;
    this.#findings = findings;
  }

  key(value: unknown): string[] {
    const path = `${this.path}.key`;
    const example = "key: ['order_id', 'source_system']";
    if (Array.isArray(value) && value.length === 0) {
      this.#findings.add(
        path,
        'is an empty list',
        `Name the columns that identify a thing in the world: ${example}.`,
      );
      return [];
    }
    return this.list(value, 'key', example);
  }

  list(value: unknown, option: string, example: string): string[] {
    return this.#findings
      .names(value, `${this.path}.${option}`, example)
      .map((name) => this.#column(name, option));
  }

  one(value: unknown, option: string): string | null {
    if (value === undefined) return null;
    if (typeof value === 'string' && value !== '') return this.#column(value, option);
    this.#findings.add(
      `${this.path}.${option}`,
      `is ${kindOf(value)}, not a column`,
      'Write the name of one column.',
    );
    return null;
  }

  #column(written: string, option: string): string {
    const name = columnName(this.#table, written);
    if (!isIdentifier(name)) {
      this.#findings.add(
        `${this.path}.${option}`,
        `'${name}' cannot be a name in Postgres`,
        'Use 1 to 63 bytes.',
      );
    } else if (name.startsWith('_')) {
      this.#findings.add(
        `${this.path}.${option}`,
        `column ${name} begins with an underscore`,
        "Such names are emend's own in log, history and target: rename the column.",
      );
    }
    return name;
  }
}
