import { countOf } from '../observe/count-of.ts';
import type { Migration, PlannedStatement } from '../pipeline/migrate.ts';

/** A script for a person to read, per database; `migrate` runs the same statements. */
export function describePlan(migration: Migration): string {
  if (migration.statements.length === 0) return '-- nothing to do';
  const scripts = (['source', 'store'] as const).map((database) => {
    const statements = migration.statements.filter((statement) => statement.database === database);
    return statements.length === 0 ? '' : `-- in the ${database}\n\n${statements.map(script).join('\n\n')}`;
  });
  return [...scripts.filter((text) => text !== ''), ...migration.notes.map((note) => `-- ${note}`)].join(
    '\n\n',
  );
}

function script({ purpose, sql }: PlannedStatement): string {
  return `-- ${purpose}\n${sql.trimEnd().replace(/;?$/, ';')}`;
}

export function describeMigration({ install, statements, notes }: Migration): string {
  const done =
    statements.length === 0
      ? `Nothing to do: install ${install} is up to date.`
      : `Install ${install} is migrated: ${countOf(statements.length, 'statement')}.`;
  return [done, ...notes].join('\n');
}
