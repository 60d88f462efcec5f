import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import type { ClientBase } from 'pg';
import { EmendError } from '../errors.ts';
import { literal, qualified } from './identifier.ts';
import type { Statement } from './statement.ts';

/** `drizzle/source` goes into the source, `drizzle/store` into the store; one database may be both. */
export type Side = 'source' | 'store';

const journals = {
  source: { schema: 'corrections', table: '_migration' },
  store: { schema: 'emend', table: 'migration' },
} as const;

/**
 * The statements of the fixed migrations that the database lacks, with its journal. Changes nothing; whoever runs them does
 * so in one transaction, and under the lock under which it asked for them, so that any number at once succeed.
 *
 * Not drizzle's own `migrate`: that takes no lock, skips a migration that is older than the last one, and never
 * compares the hashes it keeps.
 *
 * @param folder replaces the folder of the package
 * @throws EmendError `migration_conflict`
 */
export async function pendingMigrations(
  client: ClientBase,
  side: Side,
  folder: string = migrationFolder(side),
): Promise<Statement[]> {
  const files = readFiles(folder);
  const applied = await readJournal(client, side);
  refuseConflict(side, files, applied ?? []);
  const missing = files.slice(applied?.length ?? 0);
  return [
    ...(applied ? [] : await createJournal(client, side)),
    ...missing.flatMap((file) => [
      ...file.statements.map((sql) => ({ purpose: `${side} migration ${file.tag}`, sql })),
      record(side, file),
    ]),
  ];
}

/** Beside `src` and beside `dist` alike, and in the published package. */
function migrationFolder(side: Side): string {
  return fileURLToPath(new URL(`../../drizzle/${side}`, import.meta.url));
}

interface MigrationFile {
  readonly tag: string;
  readonly hash: string;
  readonly statements: readonly string[];
}

function readFiles(folder: string): MigrationFile[] {
  const journal = `${folder}/meta/_journal.json`;
  if (!existsSync(journal)) {
    throw new EmendError('dependency_missing', `emend's migrations are not at ${folder}`, {
      remedy: 'Install emend again: the folder drizzle belongs to the package.',
    });
  }
  const { entries } = JSON.parse(readFileSync(journal, 'utf8')) as { entries: { tag: string }[] };
  return readMigrationFiles({ migrationsFolder: folder }).map((file, index) => ({
    tag: entries[index]!.tag,
    hash: file.hash,
    statements: file.sql.map((sql) => sql.trim()).filter((sql) => sql !== ''),
  }));
}

interface Applied {
  readonly tag: string;
  readonly hash: string;
}

/** Null where the journal does not exist yet. */
async function readJournal(client: ClientBase, side: Side): Promise<Applied[] | null> {
  const journal = journalTable(side);
  const exists = await client.query<{ there: string }>(
    `select (to_regclass($1) is not null)::text as there`,
    [journal],
  );
  if (exists.rows[0]?.there !== 'true') return null;
  const { rows } = await client.query<Applied>(`select tag, hash from ${journal} order by number`);
  return rows;
}

/** What is applied must be the beginning of what the files say, to the letter. */
function refuseConflict(side: Side, files: readonly MigrationFile[], applied: readonly Applied[]): void {
  applied.forEach(({ tag, hash }, index) => {
    const file = files[index];
    if (file?.tag === tag && file.hash === hash) return;
    if (file?.tag === tag) {
      throw conflict(
        `${side} migration ${tag} was edited after it was applied`,
        'Restore the file as it was published; a change is a new migration.',
      );
    }
    if (file && !applied.some((other) => other.tag === file.tag)) {
      throw conflict(
        `${side} migration ${file.tag} was never applied, and the later ${tag} was`,
        'Number the new migration behind those that are applied.',
      );
    }
    throw conflict(
      `the ${side} has migration ${tag}, which this emend does not know: a newer emend migrated it`,
      'Use the newer version of emend everywhere; a migrated database does not go back.',
    );
  });
}

function conflict(message: string, remedy: string): EmendError {
  return new EmendError('migration_conflict', message, { remedy });
}

/** `create schema if not exists` wants the right to create even where the schema exists, so the catalogue is asked. */
async function createJournal(client: ClientBase, side: Side): Promise<Statement[]> {
  const { schema } = journals[side];
  const { rows } = await client.query<{ there: string }>(
    `select (to_regnamespace($1) is not null)::text as there`,
    [schema],
  );
  const columns = [
    'number integer primary key generated always as identity',
    'tag text not null unique',
    'hash text not null',
    'applied_at timestamptz not null default now()',
  ];
  return [
    ...(rows[0]?.there === 'true'
      ? []
      : [{ purpose: `schema of emend in the ${side}`, sql: `create schema ${schema}` }]),
    {
      purpose: `journal of ${side} migrations`,
      sql: `create table ${journalTable(side)} (\n  ${columns.join(',\n  ')}\n)`,
    },
  ];
}

function record(side: Side, { tag, hash }: MigrationFile): Statement {
  return {
    purpose: `record migration ${tag}`,
    sql: `insert into ${journalTable(side)} (tag, hash) values (${literal(tag)}, ${literal(hash)})`,
  };
}

function journalTable(side: Side): string {
  return qualified(journals[side].schema, journals[side].table);
}
