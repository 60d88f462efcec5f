import type { ClientBase, Pool } from 'pg';
import { EmendError } from '../errors.ts';

/**
 * The id of the install, as the store has it. Slot, publication, roles and the queue's prefix carry it.
 *
 * @throws EmendError `not_migrated`
 */
export async function requireInstall(store: Pool): Promise<string> {
  const id = await readInstall(store, 'store');
  if (id !== null) return id;
  throw new EmendError('not_migrated', 'store.url: this database has not been migrated', {
    remedy: 'Run emend migrate, or correct store.url (STORE_URL) if emend lives in another database.',
  });
}

/** The id that one side of an install has, or null before it was migrated. */
export async function readInstall(
  client: Pool | ClientBase,
  side: 'source' | 'store',
): Promise<string | null> {
  const table = installTables[side];
  const exists = await client.query<{ there: string }>(
    `select (to_regclass($1) is not null)::text as there`,
    [table],
  );
  if (exists.rows[0]?.there !== 'true') return null;
  const { rows } = await client.query<{ id: string }>(`select id from ${table}`);
  return rows[0]?.id ?? null;
}

/** Since when the source has a store, or null where it has none; it is migrated. */
export async function readStoreSince(source: ClientBase): Promise<string | null> {
  const { rows } = await source.query<{ since: string | null }>(
    `select store_since::text as since from corrections._install`,
  );
  return rows[0]?.since ?? null;
}

const installTables = { source: 'corrections._install', store: 'emend.install' } as const;
