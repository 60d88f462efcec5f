import type { ClientBase } from 'pg';
import { literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import type { Target } from '../change/target.ts';
import { logTable } from './log-columns.ts';

/** The triggers of a log; their functions are of the fixed migrations. */
export async function planTriggers(source: ClientBase, target: Target): Promise<Statement[]> {
  const there = await readTriggers(source, target);
  return triggersOf(target)
    .filter(({ name }) => !there.has(name))
    .map(({ purpose, sql }) => ({ purpose, sql }));
}

function triggersOf(target: Target): (Statement & { name: string })[] {
  const table = logTable(target);
  return [
    {
      name: '_append_only',
      purpose: `rows of the log of ${target.name} never change`,
      sql: [
        `create trigger _append_only before update or delete or truncate on ${table}`,
        `for each statement execute function corrections._refuse_change()`,
      ].join('\n'),
    },
    {
      name: '_only_archived',
      purpose: `rows leave the log of ${target.name} only for a file on record`,
      sql: [
        `create trigger _only_archived after delete on ${table}`,
        `referencing old table as gone for each statement execute function corrections._refuse_removal()`,
      ].join('\n'),
    },
    {
      // once a statement: locking and reading the backfill for each row is twice the work of writing the row
      name: '_guard_backfill',
      purpose: `no row of ${target.name} enters a backfill that is unknown or closed`,
      sql: [
        `create trigger _guard_backfill after insert on ${table}`,
        `referencing new table as added for each statement execute function corrections._guard_backfill()`,
      ].join('\n'),
    },
  ];
}

async function readTriggers(source: ClientBase, target: Target): Promise<Set<string>> {
  const { rows } = await source.query<{ name: string }>(
    `select t.tgname as name
     from pg_trigger t
     where t.tgrelid = to_regclass(${literal(logTable(target))}) and not t.tgisinternal`,
  );
  return new Set(rows.map(({ name }) => name));
}
