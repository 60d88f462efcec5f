import type { LogRows } from '../change/batch.ts';

/** Columns of a log table as the server described them; rows of one layout stand in the same arrays. */
export interface Layout {
  readonly target: string;
  readonly columns: readonly string[];
}

type Texts = (string | null)[];

/** Rows in stream order, kept column by column. */
export class Pile {
  rows = 0;
  bytes = 0;
  firstId = '';
  lastId = '';
  committedAtMs = 0;
  readonly #values = new Map<Layout, Texts[]>();

  add(
    layout: Layout,
    texts: Readonly<Record<string, string | null>>,
    bytes: number,
    committedAtMs: number,
  ): void {
    const values = this.#valuesOf(layout);
    const { columns } = layout;
    for (let i = 0; i < columns.length; i += 1) {
      const text = texts[columns[i]!];
      if (text === undefined) throw new Error(`a row of ${layout.target} came without a column`);
      values[i]!.push(text);
    }
    const id = texts['_id']!;
    if (this.rows === 0) {
      this.firstId = id;
      this.committedAtMs = committedAtMs;
    }
    this.lastId = id;
    this.rows += 1;
    this.bytes += bytes;
  }

  /** Takes over the rows of a later pile; the other one must not be used any more. */
  join(later: Pile): Pile {
    if (this.rows === 0) return later;
    for (const [layout, added] of later.#values) {
      const values = this.#valuesOf(layout);
      added.forEach((texts, i) => {
        const column = values[i]!;
        for (const text of texts) column.push(text);
      });
    }
    this.lastId = later.lastId;
    this.rows += later.rows;
    this.bytes += later.bytes;
    return this;
  }

  parts(): LogRows[] {
    return [...this.#values].map(([{ target, columns }, values]) => ({ target, columns, values }));
  }

  #valuesOf(layout: Layout): Texts[] {
    const known = this.#values.get(layout);
    if (known) return known;
    const values = layout.columns.map((): Texts => []);
    this.#values.set(layout, values);
    return values;
  }
}
