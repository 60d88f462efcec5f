import type { ClientBase, Pool } from 'pg';
import { periodColumns } from '../change/target.ts';
import type { Column, Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';

/** What a target's objects were generated from, as `emend.target.contract` keeps it. */
export interface Contract {
  readonly schema: string;
  readonly table: string;
  readonly mode: string | null;
  readonly key: readonly { name: string; type: string }[];
  readonly period: readonly { name: string; type: string }[];
  readonly values: readonly { name: string; type: string }[];
  readonly version: string | null;
  /** Timelines: how the table writes its ends. Not in what the first releases recorded. */
  readonly closed?: boolean;
  readonly openEnd?: string | null;
}

export async function readContract(client: Pool | ClientBase, name: string): Promise<Contract | null> {
  const exists = await client.query<{ there: string }>(
    `select (to_regclass('emend.target') is not null)::text as there`,
  );
  if (exists.rows[0]?.there !== 'true') return null;
  // as json, and not jsonb, text: the order of the fields is ours
  const { rows } = await client.query<{ contract: string }>(
    `select contract::text as contract from emend.target where name = $1`,
    [name],
  );
  return rows[0] ? (JSON.parse(rows[0].contract) as Contract) : null;
}

export function contractOf(target: Target): Contract {
  const columns = (list: readonly Column[]) => list.map(({ name, type }) => ({ name, type }));
  return {
    schema: target.schema,
    table: target.table,
    mode: target.kind === 'timeline' ? target.mode : null,
    key: columns(target.key),
    period: columns(periodColumns(target)),
    values: columns(target.values),
    version: target.version?.name ?? null,
    ...(target.kind === 'timeline'
      ? { closed: target.period.closed, openEnd: target.period.openEnd }
      : undefined),
  };
}

/**
 * What decides the meaning of every recorded row, and is declared otherwise than it was migrated: the key, the period, the form
 * of its end, the order.
 */
export function changedIdentity(
  before: Contract,
  now: Contract,
): { readonly changed: readonly string[]; readonly declaredBefore: readonly string[] } {
  const forms = (['closed', 'openEnd'] as const).filter((field) => before[field] !== undefined);
  const fields = ['schema', 'table', 'mode', 'key', 'period', 'version', ...forms] as const;
  const changed = fields.filter((field) => JSON.stringify(before[field]) !== JSON.stringify(now[field]));
  const declaredBefore = forms
    .filter((field) => changed.includes(field))
    .map((field) => `${field}: ${JSON.stringify(before[field])}`);
  return { changed, declaredBefore };
}

/**
 * Whoever writes to a target under another declaration than it was migrated with would record its rows in another meaning.
 *
 * @throws EmendError `not_migrated` for a target that the store does not know, `target_invalid` for one that it knows otherwise
 */
export async function requireSameIdentity(client: Pool | ClientBase, target: Target): Promise<void> {
  const before = await readContract(client, target.name);
  if (!before) {
    throw new EmendError('not_migrated', `target ${target.name} has not been migrated`, {
      remedy: 'Run emend migrate.',
    });
  }
  const { changed } = changedIdentity(before, contractOf(target));
  if (changed.length === 0) return;
  throw new EmendError(
    'target_invalid',
    `targets.${target.name}: ${changed.join(', ')} ${changed.length === 1 ? 'is' : 'are'} declared otherwise than it was migrated`,
    { remedy: 'Nothing is merged so. emend migrate says what it was, and what can be done.' },
  );
}
