import type { ClientBase } from 'pg';
import type { Column, Target } from '../change/target.ts';
import { statedColumns } from '../change/target.ts';
import { ident } from '../db/identifier.ts';

/** Keys as text, one array a key column. */
export type KeyTexts = readonly (readonly string[])[];

/** A target under examination, on one session of the store: its temporary tables hold both sides. */
export interface Examined {
  readonly client: ClientBase;
  readonly target: Target;
  /** Belief is compared up to this time, as text; `infinity` where nothing of the keys can be told meanwhile. */
  readonly until: string;
  /** Null: all keys. */
  readonly keys: KeyTexts | null;
  /** Where archived files are now, by their SHA-256; of others, where they were written. */
  readonly archives?: ReadonlyMap<string, string>;
}

/** The greatest bucket number; rows are examined by ranges of buckets, so that no step needs more than its share. */
export const bucketMask = 255;

/** Facts have no period; one of their own makes them a timeline of one instant. */
export function axisType(target: Target): string {
  return target.kind === 'facts' ? 'integer' : target.period.from.baseType;
}

/**
 * Makes the temporary tables, or empties them:
 * - `verify_asked`: the keys, where not all are examined
 * - `verify_claim`: the corrections that the ledger has, as the log states them (or, where the source lost them, as the store
 *   has them), with when each was told and taken back
 * - `verify_stored`: what the store has: target, history, tombstones, shadows
 * - `verify_unread`: files of archived rows that cannot be read
 * - `verify_gap`: ids that log and ledger do not have alike
 * - `verify_difference`: where the fold of the one is not the other
 *
 * Key, period and version are typed, for they are compared in the types' own order; values are the server's text.
 */
export async function openWorkspace({ client, target, keys }: Examined): Promise<void> {
  const key = target.key.map(({ baseType }, index) => `k${index} ${baseType}`).join(', ');
  const axis = axisType(target);
  const piece = (prefix: string) =>
    `${prefix}_op text, ${prefix}_from ${axis}, ${prefix}_to ${axis}, ${prefix}_vals text[], ${prefix}_known_from timestamptz, ${prefix}_known_to timestamptz`;
  const tables: Record<string, string> = {
    verify_asked: target.key.map(({ name, baseType }) => `${ident(name)} ${baseType}`).join(', '),
    verify_claim: `bucket integer, ${key}, key text[], id bigint, op text, f ${axis}, t ${axis}, ver ${target.version?.baseType ?? 'bigint'}, vals text[], told_at timestamptz, undone_at timestamptz, of_store boolean`,
    verify_stored: `bucket integer, ${key}, key text[], place text, id bigint, op text, f ${axis}, t ${axis}, vals text[], known_from timestamptz, known_to timestamptz, in_table oid, at_row tid`,
    verify_unread: 'file text, problem text, rows bigint, ids int8multirange',
    verify_gap: 'kind text, id bigint, backfill text',
    verify_difference: `kind text, place text, key text[], id bigint, ${piece('log')}, ${piece('store')}, in_table oid, at_row tid`,
  };
  for (const [name, columns] of Object.entries(tables)) {
    await client.query(`drop table if exists pg_temp.${name}`);
    await client.query(`create temporary table ${name} (${columns})`);
  }
  if (keys === null) return;
  await client.query(
    `insert into pg_temp.verify_asked select distinct ${askedKeys(target)} from ${askedArrays(target, 1)}`,
    [...keys],
  );
  await client.query('analyze pg_temp.verify_asked');
}

/** Typed keys from arrays of texts, as `a`. */
export function askedKeys(target: Target): string {
  return target.key.map(({ name, baseType }) => `a.${ident(name)}::${baseType} as ${ident(name)}`).join(', ');
}

export function askedArrays(target: Target, first: number): string {
  const arrays = target.key.map((_, index) => `$${first + index}::text[]`).join(', ');
  return `unnest(${arrays}) as a (${target.key.map(({ name }) => ident(name)).join(', ')})`;
}

/**
 * The typed key and its text, as the first columns of both tables: `cast` makes an expression of the type without length.
 * The text is that of the column's own type: `char(3)` and `numeric(9,2)` write what they hold in their own way.
 */
export function keyColumns(target: Target, cast: (column: Column) => string): string {
  const typed = target.key.map(cast);
  const texts = target.key.map((column) => `(${cast(column)})::${column.type}::text`);
  return `(hash_record_extended(row(${typed.join(', ')}), 0) & ${bucketMask})::integer, ${typed.join(', ')}, array[${texts.join(', ')}]`;
}

/** The values as texts; a retraction has none, but for the version that orders it. The backfill comes last. */
export function valueTexts(
  target: Target,
  op: string,
  backfill: string,
  cast: (column: Column) => string | null,
): string {
  const texts = target.values.map((column) => {
    const value = cast(column);
    if (value === null) return 'null::text';
    const text = `(${value})::${column.type}::text`;
    return column === target.version ? text : `case when ${op} = 'upsert' then ${text} end`;
  });
  return `array[${[...texts, `${backfill}::text`].join(', ')}]`;
}

/** The columns of a log that say something: those that the writer states and emend's own. */
export function logColumnNames(target: Target): string[] {
  return [...statedColumns(target).map(({ name }) => name), '_id', '_op', '_nonce', '_backfill'];
}
