/**
 * Seals, promotes, reverts and abandons: asks for it in the source, and waits until the store has done it.
 *
 * Promise: what was asked stays asked, whatever becomes of the waiting; who waits is told what the store made of it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { slotName } from '../capture/names.ts';
import { neverOpens } from '../backfill/advance.ts';
import { readPromoteTime, spansOf } from '../backfill/promote-time.ts';
import type { BackfillState, Wait } from '../backfill/state.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { sqlState } from '../db/sqlstate.ts';
import { EmendError } from '../errors.ts';
import { abandonBackfill, promoteBackfill, revertBackfill, sealBackfill } from '../log/backfill.ts';
import type { Asking, Promotion } from '../log/backfill.ts';
import type { Executor } from '../log/executor.ts';
import { readChecks, readStagedRows } from './backfill-report.ts';
import { withServers } from './connections.ts';
import { requireInstall } from './install.ts';
import { askPatiently, tenMinutesMs } from './lock-wait.ts';
import type { LockWaitOptions } from './lock-wait.ts';

export interface WaitOptions extends LockWaitOptions {
  readonly onProgress?: ((progress: string) => void) | undefined;
}

export interface CarriedOut {
  readonly backfill: string;
  /** As the store has it now. */
  readonly state: BackfillState;
  /** Why it does not go on: what was asked for is not done. */
  readonly problem: string | null;
  /** The time that a promote waits for. */
  readonly waitsFor: string | null;
  /** Where the configuration states the window that it waits for: `promote`, `targets.fares.promote`. Empty: it waits as asked. */
  readonly window: readonly string[];
  /** It was done by another request than this one (promoted, reverted, abandoned), whose reason is not on its record. */
  readonly byOther: OtherRequest | null;
}

/** What stands on record of a request that was carried out. */
export interface OtherRequest {
  readonly at: string;
  readonly reason: string | null;
}

/** Waits until it is staged and checked. */
export function seal(
  config: ResolvedConfig,
  name: string,
  options: Asking & WaitOptions,
): Promise<CarriedOut> {
  return carryOut(config, name, options, (tx) => sealBackfill(tx, name, options), [
    'checked',
    'promoted',
    'reverted',
  ]);
}

/**
 * @throws EmendError `bad_arguments` for a time that cannot be read, and for an accepted check that was not made;
 *   `backfill_refused` where no window opens
 */
export function promote(
  config: ResolvedConfig,
  name: string,
  options: Promotion & WaitOptions,
): Promise<CarriedOut> {
  return carryOut(config, name, options, (tx, store) => askToPromote(tx, store, config, name, options), [
    'promoted',
  ]);
}

async function askToPromote(
  tx: Executor,
  store: Pool,
  config: ResolvedConfig,
  name: string,
  { accept = {}, reason, at, ignoreWindow = false }: Promotion,
): Promise<string> {
  // before it is checked nobody knows its checks
  const known = [...new Set((await readChecks(store, name)).map((check) => check.name))];
  const unknown = Object.keys(accept).find((check) => known.length > 0 && !known.includes(check));
  if (unknown !== undefined) {
    throw new EmendError('bad_arguments', `backfill ${name} has no check ${unknown} (--accept)`, {
      remedy: `Its checks are: ${known.join(', ')}.`,
    });
  }
  if (ignoreWindow && reason === undefined) {
    throw new EmendError('bad_arguments', 'a window is not ignored without a reason (--ignore-window)', {
      remedy: 'Say with --reason why it cannot wait; it is kept for ever.',
    });
  }
  const asked = await promoteBackfill(tx, name, {
    accept,
    ignoreWindow,
    ...(reason === undefined ? {} : { reason }),
    ...(at === undefined ? {} : { at }),
  }).catch((error: unknown) => {
    // nothing else of it is cast to a type that refuses values
    if (at === undefined || !sqlState(error)?.startsWith('22')) throw error;
    throw new EmendError(
      'bad_arguments',
      `the time at which to promote (--at) cannot be read: ${(error as Error).message}`,
      {
        remedy: 'Give it as 2026-12-01T06:00:00Z, or leave it out.',
        cause: error,
      },
    );
  });
  if (!ignoreWindow) await requireOpening(store, config, name, at);
  return asked;
}

/** In the transaction that asks for it: refused, it was never asked for. */
async function requireOpening(
  store: Pool,
  config: ResolvedConfig,
  name: string,
  at: string | undefined,
): Promise<void> {
  const { rows } = await store.query<{ targets: string }>(
    `select to_jsonb(targets)::text as targets from emend.backfill where name = $1`,
    [name],
  );
  // where the store knows nothing of it yet, the worker tells
  const targets = JSON.parse(rows[0]?.targets ?? '[]') as string[];
  const { next, closedBy } = await readPromoteTime(store, spansOf(config.promote, targets), at ?? null);
  if (next === null) throw neverOpens(name, closedBy);
}

export function revert(
  config: ResolvedConfig,
  name: string,
  options: Required<Asking> & WaitOptions,
): Promise<CarriedOut> {
  return carryOut(config, name, options, (tx) => revertBackfill(tx, name, options), ['reverted']);
}

export function abandon(
  config: ResolvedConfig,
  name: string,
  options: Required<Asking> & WaitOptions,
): Promise<CarriedOut> {
  return carryOut(config, name, options, (tx) => abandonBackfill(tx, name, options), ['abandoned']);
}

async function carryOut(
  config: ResolvedConfig,
  name: string,
  { timeoutMs = tenMinutesMs, onProgress, onBlocked }: WaitOptions,
  ask: (tx: Executor, store: Pool) => Promise<string>,
  wanted: readonly BackfillState[],
): Promise<CarriedOut> {
  const deadline = performance.now() + timeoutMs;
  return withServers(config, { role: 'backfill', max: 2 }, async ({ source, store }) => {
    const install = await requireInstall(store);
    const wasDone = wanted.includes((await look(store, name, null, false)).state);
    const request = await askPatiently(source, name, { timeoutMs, onBlocked }, (tx) => ask(tx, store));
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.5, longestPauseMs)) {
      const now = await look(store, name, request, wasDone);
      const end = endOf(now, wanted);
      if (end) return { backfill: name, state: now.state, ...end };
      const leftMs = deadline - performance.now();
      const runs = await whoRuns(source, store, install);
      if (leftMs <= 0) throw timedOut(name, now, runs);
      onProgress?.(await describeProgress(store, name, now, runs));
      await sleep(Math.min(pauseMs, leftMs));
    }
  });
}

const firstPauseMs = 20;
const longestPauseMs = 1_000;

/** What the store has of the backfill and of the request. */
interface Look {
  readonly state: BackfillState;
  readonly problem: string | null;
  readonly sealedRows: number;
  /** What the request led to; null: it has not been carried out. */
  readonly outcome: string | null;
  /** The promote of this request is still to be done. */
  readonly isWished: boolean;
  /** What it waits for, by whoever looked last. */
  readonly waits: Wait | null;
  /** Its state was asked for by another request. */
  readonly byOther: OtherRequest | null;
}

/** @param wasDone what is asked for was done before: who asks for the same again is given the request that did it */
async function look(store: Pool, name: string, request: string | null, wasDone: boolean): Promise<Look> {
  const { rows } = await store.query<{ look: string }>(
    `select jsonb_build_object(
       'state', coalesce(b.state, 'open'), 'problem', b.problem, 'outcome', r.outcome,
       'sealedRows', (select coalesce(sum((s.value ->> 'rows')::bigint), 0) from jsonb_each(b.sealed) as s),
       'isWished', coalesce(b.wish ->> 'request' = $2::text, false),
       'byOther', (
         select jsonb_build_object('at', e.at::text, 'reason', e.reason)
         from emend.backfill_event e
         where e.backfill = b.name and e.state = b.state and b.state in ('promoted', 'reverted', 'abandoned')
           and ($3::boolean or e.request is distinct from $2::text::bigint)
       ),
       'waits', case when (b.wish -> 'waits' ->> 'until')::timestamptz > clock_timestamp() then b.wish -> 'waits' end
     )::text as look
     from (select $1::text as name) as wanted
     left join emend.backfill b on b.name = wanted.name
     left join emend.backfill_request r on r._id = $2::text::bigint`,
    [name, request, wasDone],
  );
  return JSON.parse(rows[0]!.look) as Look;
}

/** Whether there is nothing left to wait for: it is done, or it was refused, or it does not go on by itself. */
function endOf(
  { state, problem, outcome, isWished, waits, byOther }: Look,
  wanted: readonly BackfillState[],
): Omit<CarriedOut, 'backfill' | 'state'> | undefined {
  if (wanted.includes(state)) {
    return {
      ...stopped(state === 'checked' ? problem : null),
      byOther: wanted.includes('checked') ? null : byOther,
    };
  }
  if (outcome === null) {
    // a revert that the table refuses is tried again, and needs somebody
    return state === 'promoted' && problem !== null ? stopped(problem) : undefined;
  }
  const isOnItsWay = isWished || wanted.includes('checked');
  if (isOnItsWay && (state === 'sealed' || state === 'staged'))
    return problem === null ? undefined : stopped(problem);
  if (isWished)
    return waits === null
      ? undefined
      : { problem, waitsFor: waits.until, window: waits.closedBy, byOther: null };
  if (outcome !== 'asked') return stopped(outcome);
  // the wish is taken back just before it is said why
  return problem === null ? undefined : stopped(problem);
}

function stopped(problem: string | null): Omit<CarriedOut, 'backfill' | 'state'> {
  return { problem, waitsFor: null, window: [], byOther: null };
}

interface Running {
  readonly reader: boolean;
  readonly worker: boolean;
}

/** A worker raises the clock's horizon several times a second; a reader holds the slot. */
async function whoRuns(source: Pool, store: Pool, install: string): Promise<Running> {
  const [slot, clock] = await Promise.all([
    source.query<{ active: string }>(
      `select coalesce(bool_or(active), false)::text as active from pg_replication_slots where slot_name = $1`,
      [slotName(install)],
    ),
    store.query<{ ticks: string }>(
      `select (clock_timestamp() - horizon < interval '15 seconds')::text as ticks from emend.clock`,
    ),
  ]);
  return { reader: slot.rows[0]?.active === 'true', worker: clock.rows[0]?.ticks === 'true' };
}

function describeRunning({ reader, worker }: Running): string | null {
  if (!worker) return 'no worker seems to run (start one: emend worker, or emend start)';
  return reader
    ? null
    : 'no reader is connected (start one: emend reader, or emend start); the sweep goes on without it, later';
}

async function describeProgress(
  store: Pool,
  name: string,
  { state, sealedRows, problem }: Look,
  runs: Running,
): Promise<string> {
  const hindrance = describeRunning(runs) ?? problem;
  if (hindrance !== null) return `${state}; ${hindrance}`;
  if (state !== 'sealed' || sealedRows === 0) return state;
  const staged = [...(await readStagedRows(store, name)).values()].reduce((sum, rows) => sum + rows, 0);
  return `${Math.min(staged, sealedRows)} of ${sealedRows} rows are staged`;
}

function timedOut(name: string, { state, problem }: Look, runs: Running): EmendError {
  const hindrance = describeRunning(runs) ?? problem;
  return new EmendError(
    'timed_out',
    `backfill ${name} is ${state} in the store; it was asked for, and is not done yet${hindrance === null ? '' : `: ${hindrance}`}`,
    { remedy: `What was asked stays asked. See emend backfill show ${name}, and emend status.` },
  );
}
