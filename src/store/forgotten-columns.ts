import type { ClientBase } from 'pg';
import { readTable } from '../db/catalogue.ts';
import { ident, qualified } from '../db/identifier.ts';

/** The tables of a target's record that hold its values; the last ones are there only where something was adopted or staged. */
const recording = ['history', 'shadow', 'baseline', 'staged'];

/**
 * The statements that make the record forget columns; none where it has forgotten them. emend does not run them: what they
 * drop is gone for good.
 */
export async function forgettingStatements(
  client: ClientBase,
  target: string,
  columns: readonly string[],
): Promise<string[]> {
  const statements: string[] = [];
  for (const suffix of recording) {
    const table = await readTable(client, 'emend', `${target}_${suffix}`);
    const held = columns.filter((name) => table?.columns.some((column) => column.name === name));
    if (held.length === 0) continue;
    const drops = held.map((name) => `drop column ${ident(name)}`).join(', ');
    statements.push(`alter table ${qualified('emend', `${target}_${suffix}`)} ${drops};`);
  }
  return statements;
}
