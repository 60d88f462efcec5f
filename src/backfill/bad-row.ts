import type { ClientBase, DatabaseError } from 'pg';
import { qualified } from '../db/identifier.ts';
import { verdictOf } from '../db/sqlstate.ts';
import type { FileRow } from './file-row.ts';
import type { RowWriting } from './row-writing.ts';

/** A row that the log does not take: where, and which rule it breaks. Never the value itself; it may be anybody's. */
export interface BadRow {
  readonly column: string | null;
  readonly rule: string;
  /** Whether the record has another shape than the log, as its neighbours then have too. */
  readonly isShape?: boolean;
  /** Where it is, when that is another line than that of the record: the header. */
  readonly line?: number;
}

/** As a sentence behind `<file>, line <n>`. */
export function describeBadRow({ column, rule }: BadRow): string {
  return column === null ? rule : `column ${column}: ${rule}`;
}

/** Finds the column at fault, by casting each alone, where Postgres does not name it. */
export async function explainBadRow(
  client: ClientBase,
  writing: RowWriting,
  { values }: FileRow,
  error: unknown,
): Promise<BadRow> {
  const { code, constraint, column, message } = error as DatabaseError;
  if (code === '23502' && column !== undefined) return { column, rule: 'null is refused: it needs a value' };
  if (constraint !== undefined) return { column: null, rule: `it breaks the rule "${constraint}"` };
  for (const each of writing.columns) {
    const text = values[each.name];
    if (text === null || text === undefined) continue;
    const refusal = await castRefusal(client, writing, each.name, each.type, text);
    if (refusal === null) continue;
    const isJsonArray = each.type.endsWith('[]') && text.startsWith('[');
    return {
      column: each.name,
      rule: isJsonArray
        ? `a JSON array is refused: write an array as PostgreSQL does, in a text: "{x,y}"`
        : `${kindOf(text)} is refused: ${refusal}`,
    };
  }
  return { column: null, rule: withoutValue(message) };
}

/** The cast refuses what is no value of the type; the row type, what is too long or too large for this column. */
async function castRefusal(
  client: ClientBase,
  { target }: RowWriting,
  column: string,
  type: string,
  text: string,
): Promise<string | null> {
  await client.query('savepoint value');
  try {
    await client.query(
      `select $1::text::${type}, jsonb_populate_record(null::${qualified('corrections', target.name)}, jsonb_build_object($2::text, $1::text))`,
      [text, column],
    );
    return null;
  } catch (error) {
    if (verdictOf(error) !== 'halve') throw error;
    return withoutValue((error as Error).message);
  } finally {
    await client.query('rollback to savepoint value; release savepoint value');
  }
}

/** Postgres puts the value behind what is wrong with it. */
function withoutValue(message: string): string {
  return message.replace(/(: )?".*"$/s, '').trim();
}

function kindOf(text: string): string {
  if (text === '') return 'an empty text';
  if (/^[-+]?\d+(\.\d+)?$/.test(text)) return `a number of ${text.replaceAll(/\D/g, '').length} digits`;
  const { length } = Array.from(text);
  return `a text of ${length === 1 ? '1 character' : `${length} characters`}`;
}
