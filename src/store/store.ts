/**
 * The store's objects of one target, beside the user's own table.
 *
 * Promise: the table holds what is believed now and nothing else, so a plain select is right; history, shadow and
 * tombstones hold the rest, so that the store alone can answer, explain and revert (law 4).
 * If it breaks: an answer about the past changes, or a correction that lost once can never come back.
 */
import type { ClientBase } from 'pg';
import { readTable } from '../db/catalogue.ts';
import { ident, literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import type { Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { forgettingStatements } from './forgotten-columns.ts';
import { readingFunctions } from './functions.ts';
import { lockClass, objectsLock } from './lock-class.ts';
import { targetTable } from './names.ts';
import { planOwnTables } from './own-tables.ts';
import { hasRows, isEquipped, planTargetTable } from './target-table.ts';
import { changedIdentity, contractOf, readContract } from './contract.ts';
import type { Contract } from './contract.ts';
import { planAdoption, recordAdoption } from './adopt.ts';
import { periodsView, toldColumns, toldView } from './views.ts';

/**
 * The statements that bring the store to what the target needs; none when it is there already. Changes nothing.
 *
 * @param adopt whether rows that the table has may be taken in as corrections
 * @throws EmendError `target_invalid` for rows that may not, or cannot, be adopted; `migration_destructive` when the target's identity or a recorded column changed.
 */
export async function planStore(
  client: ClientBase,
  target: Target,
  { adopt = false }: { readonly adopt?: boolean } = {},
): Promise<Statement[]> {
  const contract = contractOf(target);
  const before = await readContract(client, target.name);
  if (before && JSON.stringify(before) === JSON.stringify(contract) && (await hasViews(client, target)))
    return [];
  if (before) await refuseOtherIdentity(client, target, before, contract);

  const table = await readTable(client, target.schema, target.table);
  if (!table) throw new TypeError(`table of target ${target.name} was resolved and is gone`);
  const columns = await toldColumns(client, target);
  const adopted = !isEquipped(table) && (await hasRows(client, target));
  return [
    ...(before ? [lockObjects(target)] : []),
    ...(adopted ? await planAdoption(client, target, adopt) : []),
    ...planTargetTable(target, table, { adopted }),
    ...(await planOwnTables(client, target)),
    toldView(target, columns),
    ...(target.kind === 'timeline' ? [periodsView(target)] : []),
    ...readingFunctions(target, columns),
    {
      purpose: `contract of ${target.name}`,
      sql: [
        `insert into emend.target (name, kind, contract)`,
        `values (${literal(target.name)}, ${literal(target.kind)}, ${literal(JSON.stringify(contract))})`,
        `on conflict (name) do update set contract = excluded.contract, migrated_at = now(), revision = emend.target.revision + 1`,
      ].join('\n'),
    },
    ...(adopted ? [recordAdoption(target)] : []),
  ];
}

/** Merges that run now are waited for; later ones find the new revision, and are prepared again. */
function lockObjects({ name }: Target): Statement {
  return {
    purpose: `no merge of ${name} meanwhile`,
    sql: `select pg_advisory_xact_lock(${lockClass} + number, ${objectsLock}) from emend.target where name = ${literal(name)}`,
  };
}

/** Whoever drops or retypes a column has to drop them first. */
async function hasViews(client: ClientBase, { name, kind }: Target): Promise<boolean> {
  const views = kind === 'timeline' ? ['told', 'periods'] : ['told'];
  for (const suffix of views) if (!(await readTable(client, 'emend', `${name}_${suffix}`))) return false;
  return true;
}

/** A column may go once the record has none of it any more. */
async function refuseOtherIdentity(
  client: ClientBase,
  target: Target,
  before: Contract,
  now: Contract,
): Promise<void> {
  const { changed, declaredBefore } = changedIdentity(before, now);
  const gone = before.values.filter((column) => !now.values.some(({ name }) => name === column.name));
  const forget = await forgettingStatements(
    client,
    target.name,
    gone.map(({ name }) => name),
  );
  if (changed.length === 0 && forget.length === 0) return;
  const what = [...changed, ...gone.map((column) => `column ${column.name} (gone)`)].join(', ');
  const putBack = gone.map(({ name, type }) => `add column ${ident(name)} ${type}`).join(', ');
  throw new EmendError(
    'migration_destructive',
    `targets.${target.name}: ${what} changed since it was migrated`,
    {
      remedy:
        `Recorded corrections would mean something else. Declare a new target beside it (another name, another table) and write its rows as corrections` +
        (gone.length > 0 ? `; or put the column back: alter table ${targetTable(target)} ${putBack};` : '.') +
        (declaredBefore.length > 0
          ? ` Or declare again what was migrated: ${declaredBefore.join(', ')}.`
          : '') +
        (changed.length === 0
          ? ` Or, with all workers stopped, forget for good what is recorded in it: ${forget.join(' ')}`
          : ''),
    },
  );
}
