type Texts = readonly (string | null)[];

/** What all rows of a column have; undefined where they differ, and for no rows. */
export function uniformText(texts: Texts): string | null | undefined {
  const [first] = texts;
  return texts.every((text) => text === first) ? first : undefined;
}

/** A column inside a queue job: of most of emend's own columns each row of a batch has the same. */
export type PackedColumn = Texts | { readonly all: string | null };

export function packColumn(texts: Texts): PackedColumn {
  const all = texts.length > 1 ? uniformText(texts) : undefined;
  return all === undefined ? texts : { all };
}

export function unpackColumn(column: PackedColumn, rows: number): Texts {
  return 'all' in column ? new Array<string | null>(rows).fill(column.all) : column;
}
