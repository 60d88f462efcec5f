import type { ClientBase } from 'pg';
import { identList } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { checkInput } from './check.ts';
import { checkResult } from './check-result.ts';
import { readHeld } from './completeness.ts';
import { recordMade } from './diff.ts';
import { blocking, describeBlocking, writeFindings } from './findings.ts';
import type { Finding } from './findings.ts';
import { mergeStaged, stagedKeys, withinFence } from './promotion.ts';
import type { BackfillTarget, Promotion } from './promotion.ts';
import { moveTo } from './state.ts';
import type { Backfill, Wish } from './state.ts';

/**
 * Makes a checked backfill visible: in one transaction, for all of its targets, at one K (law 7). The checks hold inside it
 * too: what moved since they ran is checked again before the merge, and the result before the commit.
 *
 * @throws EmendError `checks_failed`, with all of them written down; nothing has become visible
 */
export async function promote(promotion: Promotion, backfill: Backfill, wish: Wish): Promise<void> {
  const { store, targets } = promotion;
  const { name } = backfill;
  let findings: Finding[] = [];
  try {
    await withinFence(promotion, stagedKeys, async (client, k) => {
      await requireWhole(client, backfill, targets);
      const hasMoved = await movedSinceCheck(client, backfill, targets);
      const known = hasMoved
        ? await checkInput(client, promotion, backfill, (to, of, part) =>
            recordMade(to, of, part, backfill.checkedAt!),
          )
        : await standingFindings(client, name);
      await mergeStaged(client, promotion, k);
      const result = await checkResult(
        client,
        backfill,
        targets.map(({ target }) => target),
      );
      findings = withLatest(known, result);
      const failed = blocking(findings, wish.accept);
      if (failed.length > 0) {
        throw new EmendError(
          'checks_failed',
          `backfill ${name} was not promoted: ${describeBlocking(failed)}`,
          {
            remedy: `Look at them (emend backfill show ${name}); accept one by name with a reason, or abandon the backfill and make a new one.`,
          },
        );
      }
      await writeFindings(client, name, findings, wish.accept);
      await client.query(`update emend.backfill set told_at = $2::timestamptz, wish = null where name = $1`, [
        name,
        k,
      ]);
      await moveTo(client, name, 'promoted', { id: wish.request, actor: wish.actor, reason: wish.reason });
    });
  } catch (error) {
    // all or none: what is written here is what the next promote is held against
    if (findings.length > 0)
      await withTransaction(store, (client) => writeFindings(client, name, findings, wish.accept));
    throw error;
  }
}

/** What was sealed is what is promoted: somebody may have taken staged rows away by hand since they were counted. */
async function requireWhole(
  client: ClientBase,
  { name, sealed }: Backfill,
  targets: readonly BackfillTarget[],
): Promise<void> {
  for (const { target } of targets) {
    const wanted = sealed?.[target.name];
    const held = await readHeld(client, target, name, wanted?.columns ?? ['_id']);
    if (held.rows === wanted?.rows && held.digest === wanted.digest && held.setAside === 0) continue;
    throw new EmendError(
      'checks_failed',
      `backfill ${name} was not promoted: of ${target.name} the store holds ${held.rows} rows with digest ${held.digest}, sealed were ${wanted?.rows} with ${wanted?.digest}`,
      { remedy: 'Look who changed its staged rows; abandon it, and load its rows into a new one.' },
    );
  }
}

/** Whether anything was told of one of its keys since the checks, or taken back. Where nothing was of the target, no key is looked up. */
async function movedSinceCheck(
  client: ClientBase,
  { name, checkedAt }: Backfill,
  targets: readonly BackfillTarget[],
): Promise<boolean> {
  for (const { target } of targets) {
    const told = [
      [targetTable(target), 't._known_from >= $2::timestamptz'],
      [ownObject(target, 'shadow'), 't._known_from >= $2::timestamptz'],
      [ownObject(target, 'history'), 't._known_to >= $2::timestamptz'],
      [
        ownObject(target, 'tombstone'),
        `greatest(t._known_from, nullif(t._known_to, 'infinity')) >= $2::timestamptz`,
      ],
    ].map(
      ([table, since]) =>
        `exists (select from ${table} t where ${sameKey(target.key, 't', 'k')} and ${since})`,
    );
    const { rows } = await client.query<{ moved: string }>(
      `select (exists (select from emend.merge m where m.target = $3 and m.told_at >= $2::timestamptz) and exists (
         select from (select distinct ${identList(target.key.map((column) => column.name))} from ${ownObject(target, 'staged')} where _backfill = $1) as k
         where ${told.join(' or ')}
       ))::text as moved`,
      [name, checkedAt, target.name],
    );
    if (rows[0]!.moved === 'true') return true;
  }
  return false;
}

async function standingFindings(client: ClientBase, name: string): Promise<Finding[]> {
  const { rows } = await client.query<
    Record<'target' | 'name' | 'figure' | 'threshold' | 'details', string> & Pick<Finding, 'verdict'>
  >(
    `select target, name, figure, threshold, verdict, details::text as details from emend.backfill_check where backfill = $1`,
    [name],
  );
  return rows.map((row) => ({ ...row, details: JSON.parse(row.details) as Record<string, unknown> }));
}

/** Those that were found again stand for what was found before. */
function withLatest(before: readonly Finding[], latest: readonly Finding[]): Finding[] {
  const isReplaced = (finding: Finding): boolean =>
    finding.name === 'merge' ||
    latest.some(({ target, name }) => target === finding.target && name === finding.name);
  return [...before.filter((finding) => !isReplaced(finding)), ...latest];
}
