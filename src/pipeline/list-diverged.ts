import type { Pool } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import type { TargetDeclaration } from '../config/target-declaration.ts';
import { identList, qualified } from '../db/identifier.ts';
import type { DivergedRow } from '../store/diverged.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';

export interface ListedRow {
  readonly kind: DivergedRow['kind'];
  readonly target: string;
  readonly _id: string;
  /** A reused row as the log has it, a lost one as the store has; null where neither has it any more. */
  readonly key: Readonly<Record<string, string>> | null;
  readonly noticed_at: string;
  readonly state: 'open' | 'kept' | 'adopted';
  readonly new_id: string | null;
  readonly resolved_at: string | null;
  readonly resolved_by: string | null;
  readonly resolved_reason: string | null;
}

export interface ListRequest {
  readonly target?: string | undefined;
  /** Also those about which it was decided. */
  readonly closed?: boolean;
  readonly limit: number;
}

/** The first diverged rows, by number. */
export async function listDiverged(
  config: ResolvedConfig,
  { target, closed, limit }: ListRequest,
): Promise<ListedRow[]> {
  if (target !== undefined) findTarget(config.targets, target);
  return withServers(config, { role: 'diverged', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    const { rows } = await store.query<Omit<ListedRow, 'key'>>(
      `select d.kind, d.target, d._id, d.noticed_at, coalesce(d.resolution, 'open') as state, d.new_id, d.resolved_at, d.resolved_by, d.resolved_reason
       from emend.diverged d
       where ($1::text is null or d.target = $1) and ($2 or d.resolution is null)
       order by d._id, d.kind, d._nonce
       limit $3::integer`,
      [target ?? null, closed === true, limit],
    );
    const keys = new Map<string, ListedRow['key']>();
    for (const declaration of config.targets) {
      for (const kind of ['lost', 'reused'] as const) {
        const ids = rows.filter((row) => row.target === declaration.name && row.kind === kind);
        const found = await readKeys(
          kind === 'lost' ? store : source,
          kind === 'lost' ? inStore(declaration) : inLog(declaration),
          declaration.key,
          ids.map(({ _id }) => _id),
        );
        for (const [id, key] of found) keys.set(`${kind} ${id}`, key);
      }
    }
    return rows.map((row) => ({ ...row, key: keys.get(`${row.kind} ${row._id}`) ?? null }));
  });
}

function inLog({ name, key }: TargetDeclaration): string {
  return `select _id, ${identList(key)} from ${qualified('corrections', name)}`;
}

/** Everywhere that something of a correction may stand. */
export function inStore({ name, schema, table, key }: TargetDeclaration): string {
  return [
    qualified(schema, table),
    ...['history', 'shadow', 'tombstone'].map((suffix) => qualified('emend', `${name}_${suffix}`)),
  ]
    .map((each) => `select _version as _id, ${identList(key)} from ${each}`)
    .join(' union all ');
}

async function readKeys(
  database: Pool,
  rowsSql: string,
  key: readonly string[],
  ids: readonly string[],
): Promise<Map<string, Record<string, string>>> {
  if (ids.length === 0) return new Map();
  const { rows } = await database.query<Record<string, string>>(
    `select distinct on (_id) _id, ${identList(key)} from (${rowsSql}) as named where _id = any($1::bigint[]) order by _id`,
    [ids],
  );
  return new Map(rows.map(({ _id, ...values }) => [_id!, values]));
}
