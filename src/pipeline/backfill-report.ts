/** What source and store know of backfills: the state as it was asked for, and as far as the store has come. */
import type { Pool } from 'pg';
import type { ChangedMonth } from '../backfill/check-months.ts';
import type { BackfillState, Wait } from '../backfill/state.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { EmendError } from '../errors.ts';
import { withServers } from './connections.ts';
import { requireInstall } from './install.ts';

export interface ListedBackfill {
  readonly name: string;
  readonly targets: readonly string[];
  /** As far as the store has come; `open` where it has nothing of it yet. */
  readonly state: BackfillState;
  /** What was asked for last in the source, and is on its way; the state where that was answered, with yes or with no. */
  readonly asked: string;
  readonly since: string;
  readonly reason: string | null;
  /** Rows that were sealed; null before. */
  readonly rows: number | null;
  /** Why it does not go on. */
  readonly problem: string | null;
  /** What a promote that was asked for waits for. */
  readonly waits: Wait | null;
  /** When the promote that was asked for last was answered with no: `problem` says by what. It is not on its way any more. */
  readonly refusedAt: string | null;
}

export interface BackfillEvent {
  readonly state: BackfillState;
  readonly at: string;
  readonly actor: string | null;
  readonly reason: string | null;
}

export interface BackfillCheck {
  readonly target: string;
  readonly name: string;
  readonly figure: string;
  readonly threshold: string;
  readonly verdict: 'pass' | 'fail' | 'note';
  /** Why it may fail. */
  readonly accepted: string | null;
  /** Where it fails: the first few (5), in words. */
  readonly examples?: readonly string[];
  /** Of `changes_by_month`. */
  readonly months?: readonly ChangedMonth[];
}

export interface BackfillReport extends ListedBackfill {
  readonly logicVersion: string | null;
  readonly boundary: unknown;
  readonly origin: unknown;
  readonly actor: string;
  readonly openedAt: string;
  /** By target: rows that were sealed, and that the store has staged. */
  readonly counts: readonly {
    readonly target: string;
    readonly sealed: number | null;
    readonly loaded: number;
    readonly staged: number;
  }[];
  readonly events: readonly BackfillEvent[];
  readonly checks: readonly BackfillCheck[];
}

export async function listBackfills(config: ResolvedConfig): Promise<ListedBackfill[]> {
  return withBoth(config, async ({ source, store }) => {
    const stated = await readStated(source, null);
    const reached = await readReached(
      store,
      stated.map(({ name }) => name),
    );
    return stated.map((backfill) => listed(backfill, reached.get(backfill.name)));
  });
}

/** @throws EmendError `backfill_refused` when there is none of that name */
export async function showBackfill(config: ResolvedConfig, name: string): Promise<BackfillReport> {
  return withBoth(config, (servers) => readReport(servers, name));
}

async function readReport({ source, store }: Servers, name: string): Promise<BackfillReport> {
  const [stated] = await readStated(source, name);
  if (!stated) {
    throw new EmendError('backfill_refused', `there is no backfill ${name}`, {
      remedy: 'See emend backfill list.',
    });
  }
  const reached = (await readReached(store, [name])).get(name);
  return {
    ...listed(stated, reached),
    logicVersion: stated.logicVersion,
    boundary: stated.boundary,
    origin: stated.origin,
    actor: stated.actor,
    openedAt: stated.openedAt,
    counts: await readCounts({ source, store }, stated),
    events: await readEvents(store, name),
    checks: await readChecks(store, name),
  };
}

/** As its author stated it in the source. */
interface Stated {
  readonly name: string;
  readonly targets: readonly string[];
  readonly asked: string;
  /** The request of what was asked for last. */
  readonly lastRequest: string | null;
  /** The request of the promote that was asked for last. */
  readonly lastPromote: string | null;
  readonly since: string;
  readonly sealed: Readonly<Record<string, { readonly rows: number }>> | null;
  readonly reason: string | null;
  readonly logicVersion: string | null;
  readonly boundary: unknown;
  readonly origin: unknown;
  readonly actor: string;
  readonly openedAt: string;
}

async function readStated(source: Pool, name: string | null): Promise<Stated[]> {
  const { rows } = await source.query<{ stated: string }>(
    `select jsonb_build_object(
       'name', b.name, 'targets', b.targets, 'asked', s.state, 'since', s.since, 'sealed', b.sealed, 'reason', b.reason,
       'logicVersion', b.logic_version, 'boundary', b.boundary, 'origin', b.origin, 'actor', b.actor, 'openedAt', b.opened_at,
       'lastRequest', (select max(r._id)::text from corrections._request r where r.backfill = b.name and r.request <> 'chunk'),
       'lastPromote', (select max(r._id)::text from corrections._request r where r.backfill = b.name and r.request = 'promote')
     )::text as stated
     from corrections._backfill b
     join corrections._backfill_state s on s.name = b.name
     where b.kind = 'backfill' and ($1::text is null or b.name = $1)
     order by b.opened_at, b.name`,
    [name],
  );
  return rows.map((row) => JSON.parse(row.stated) as Stated);
}

interface Reached {
  readonly state: BackfillState;
  readonly since: string;
  readonly problem: string | null;
  readonly waits: Wait | null;
  /** The last request that is done, or never will be. */
  readonly answered: string | null;
  /** The last promote that was refused, of those that came here: its wish was taken back. */
  readonly refused: string | null;
}

async function readReached(store: Pool, names: readonly string[]): Promise<Map<string, Reached>> {
  const { rows } = await store.query<{ name: string; reached: string }>(
    `select b.name, jsonb_build_object(
       'state', b.state, 'since', b.updated_at::text, 'problem', b.problem, 'waits', b.wish -> 'waits',
       'answered', (
         select max(r._id)::text
         from emend.backfill_request r
         where r.backfill = b.name and r.request <> 'chunk' and r.outcome <> 'asked'
       ),
       'refused', (
         select max(r._id)::text
         from emend.backfill_request r
         where r.backfill = b.name and r.request = 'promote' and b.state = 'checked' and b.wish is null
       )
     )::text as reached
     from emend.backfill b
     where b.name = any ($1::text[])`,
    [names],
  );
  return new Map(rows.map(({ name, reached }) => [name, JSON.parse(reached) as Reached]));
}

function listed(
  { name, targets, asked, lastRequest, lastPromote, since, reason, sealed }: Stated,
  reached: Reached | undefined,
): ListedBackfill {
  const isRefused = asked === 'promoted' && lastPromote !== null && reached?.refused === lastPromote;
  return {
    name,
    targets,
    state: reached?.state ?? 'open',
    asked: reached && reached.answered === lastRequest ? reached.state : asked,
    since: reached?.since ?? since,
    reason,
    rows: sealed === null ? null : Object.values(sealed).reduce((sum, { rows }) => sum + rows, 0),
    problem: reached?.problem ?? null,
    waits: reached?.waits ?? null,
    refusedAt: isRefused ? reached.since : null,
  };
}

async function readCounts(
  { source, store }: Servers,
  { name, targets, sealed }: Stated,
): Promise<BackfillReport['counts']> {
  const { rows: loaded } = await source.query<{ target: string; rows: string }>(
    `select r.details ->> 'target' as target, coalesce(sum((r.details ->> 'rows')::bigint), 0)::text as rows
     from corrections._request r
     where r.backfill = $1 and r.request = 'chunk'
     group by 1`,
    [name],
  );
  const staged = await readStagedRows(store, name);
  return targets.map((target) => {
    const rows = sealed?.[target]?.rows ?? null;
    const asked = Number(loaded.find((each) => each.target === target)?.rows ?? 0);
    return {
      target,
      sealed: rows,
      loaded: rows ?? asked,
      staged: Math.min(staged.get(target) ?? 0, rows ?? Infinity),
    };
  });
}

/** By the chunks that are done. */
export async function readStagedRows(store: Pool, name: string): Promise<Map<string, number>> {
  const { rows } = await store.query<{ target: string; rows: string }>(
    `select r.details ->> 'target' as target, sum((r.details ->> 'rows')::bigint)::text as rows
     from emend.backfill_request r
     where r.backfill = $1 and r.request = 'chunk' and r.outcome = 'staged'
     group by 1`,
    [name],
  );
  return new Map(rows.map((row) => [row.target, Number(row.rows)]));
}

async function readEvents(store: Pool, name: string): Promise<BackfillEvent[]> {
  const { rows } = await store.query<BackfillEvent>(
    `select state, at::text as at, actor, reason from emend.backfill_event e where backfill = $1 order by e.at`,
    [name],
  );
  return rows;
}

export async function readChecks(store: Pool, name: string): Promise<BackfillCheck[]> {
  const { rows } = await store.query<{ found: string }>(
    `select (jsonb_build_object('target', target, 'name', name, 'figure', figure, 'threshold', threshold,
         'verdict', verdict, 'accepted', accepted)
       || jsonb_strip_nulls(jsonb_build_object('examples', details -> 'examples'))
       || case when details ? 'months' then jsonb_build_object('months', details -> 'months') else '{}' end)::text as found
     from emend.backfill_check
     where backfill = $1
     order by array_position(array['fail', 'note', 'pass'], verdict), target, name`,
    [name],
  );
  return rows.map(({ found }) => JSON.parse(found) as BackfillCheck);
}

interface Servers {
  readonly source: Pool;
  readonly store: Pool;
}

function withBoth<T>(config: ResolvedConfig, body: (servers: Servers) => Promise<T>): Promise<T> {
  return withServers(config, { role: 'backfill', max: 2 }, async (servers) => {
    await requireInstall(servers.store);
    return body(servers);
  });
}
