import type { ClientBase } from 'pg';
import type { Target } from '../change/target.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { openBackfill, restateBackfill } from '../log/backfill.ts';
import type { BackfillOpening, Boundary } from '../log/backfill.ts';
import { logTable } from '../log/log-columns.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { checkStatedChecks } from './check-stated-checks.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { askPatiently } from './lock-wait.ts';
import type { LockWaitOptions } from './lock-wait.ts';

export interface Opened {
  readonly backfill: string;
  /** False: it had been opened before, the same. */
  readonly opened: boolean;
}

/**
 * Opens a backfill, once its boundary and its checks are known to mean something.
 *
 * @throws EmendError `bad_arguments` for a boundary or a check that cannot be read, `backfill_refused` for what the source refuses
 */
export function openStatedBackfill(
  config: ResolvedConfig,
  opening: BackfillOpening,
  waiting: LockWaitOptions = {},
): Promise<Opened> {
  return withStatement(config, opening, waiting, async (client) => ({
    backfill: opening.name,
    opened: await openBackfill(client, opening),
  }));
}

/** States an open one anew, as its file was mended. Throws as opening does. */
export async function restateStatedBackfill(
  config: ResolvedConfig,
  opening: BackfillOpening,
  waiting: LockWaitOptions,
): Promise<void> {
  await withStatement(config, opening, waiting, (client) => restateBackfill(client, opening));
}

async function withStatement<T>(
  config: ResolvedConfig,
  opening: BackfillOpening,
  waiting: LockWaitOptions,
  state: (client: ClientBase) => Promise<T>,
): Promise<T> {
  const declarations = opening.targets.map((name) => findTarget(config.targets, name));
  return withServers(config, { role: 'backfill', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    const targets = await withClient(store, (client) => resolveTargets(client, declarations));
    await withClient(source, async (client) => {
      for (const target of targets)
        await checkBoundary(client, target, opening.boundary?.[target.name] ?? {});
    });
    await checkStatedChecks(store, targets, opening.checks ?? {});
    return askPatiently(source, opening.name, waiting, state);
  });
}

async function checkBoundary(
  client: ClientBase,
  target: Target,
  { from, to, where }: Boundary,
): Promise<void> {
  if (from !== undefined || to !== undefined) {
    const time = target.kind === 'timeline' ? target.period.from : target.eventTime;
    if (!time) {
      throw new EmendError(
        'bad_arguments',
        `target ${target.name} has no event time, so from and to mean nothing`,
        {
          remedy: `Leave --from and --to out, or declare eventTime in targets.${target.name}.`,
        },
      );
    }
    const inOrder = await ask(
      client,
      target,
      `select (coalesce(b.from_ < b.to_, true))::text as answer
       from (select $1::text::${time.baseType} as from_, $2::text::${time.baseType} as to_ offset 0) as b
       where b.from_ is distinct from null or b.to_ is distinct from null`,
      [from ?? null, to ?? null],
    );
    if (inOrder !== 'true') {
      throw new EmendError('bad_arguments', `the boundary of ${target.name} ends before it begins`, {
        remedy: 'Give --from before --to; what is at --to is outside.',
      });
    }
  }
  if (where !== undefined) {
    // bare, a parenthesis that closes another one than its own is refused; in parentheses, a clause behind the condition is.
    // One parameter keeps it one statement.
    for (const condition of [`${where}\n`, `$1::text is null and (${where}\n)`])
      await ask(
        client,
        target,
        `select 'yes' as answer, $1::text from ${logTable(target)} where ${condition} limit 0`,
        [''],
      );
  }
}

async function ask(
  client: ClientBase,
  target: Target,
  sql: string,
  values: (string | null)[],
): Promise<string | undefined> {
  try {
    const { rows } = await client.query<{ answer: string }>(sql, values);
    return rows[0]?.answer;
  } catch (error) {
    if (!/^(22|42)/.test(sqlState(error) ?? '')) throw error;
    throw new EmendError(
      'bad_arguments',
      `the boundary of ${target.name} cannot be read: ${(error as Error).message}`,
      {
        remedy:
          'Give --from and --to as values of the period column, and --where as SQL over the columns of the target.',
        cause: error,
      },
    );
  }
}
