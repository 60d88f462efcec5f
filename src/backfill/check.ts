import type { ClientBase } from 'pg';
import { withTransaction } from '../db/transaction.ts';
import { ownObject } from '../store/names.ts';
import { checkChanges } from './check-changes.ts';
import { checkMonths } from './check-months.ts';
import { checkResult } from './check-result.ts';
import { checkStaged } from './check-staged.ts';
import { checkAgainstToday } from './check-today.ts';
import { planDiff } from './diff.ts';
import { blocking, describeBlocking, writeFindings } from './findings.ts';
import type { Finding } from './findings.ts';
import { checkRawInput } from './raw-input.ts';
import { mergeStaged, stagedKeys, TableRefusal, withinFence } from './promotion.ts';
import type { BackfillTarget, Promotion } from './promotion.ts';
import { moveTo } from './state.ts';
import type { Backfill } from './state.ts';

/**
 * Checks a staged backfill and writes its diff. Nothing becomes visible: the staged rows are compared with what stands, and then
 * promoted on trial, with all that the store's own constraints and triggers say to it, in a transaction that is rolled back.
 *
 * The fence is around its keys meanwhile, so that all checks see one state.
 */
export async function check(promotion: Promotion, backfill: Backfill): Promise<void> {
  const { store, targets } = promotion;
  // the planner must know what came; statistics are not taken of what one transaction wrote
  for (const { target } of targets) await store.query(`analyze ${ownObject(target, 'staged')}`);
  let findings: Finding[] = [];
  let checkedAt = '';
  try {
    await withinFence(promotion, stagedKeys, async (client, k) => {
      checkedAt = k;
      findings = await withTransaction(store, (reader) => checkInput(reader, promotion, backfill, planDiff));
      findings.push(...(await tryMerge(client, promotion, backfill, k)));
      throw new TrialEnds();
    });
  } catch (error) {
    if (!(error instanceof TrialEnds)) throw error;
  }
  await withTransaction(store, async (client) => {
    await moveTo(client, backfill.name, 'checked', undefined);
    await writeFindings(client, backfill.name, findings, {});
    const failed = blocking(findings, {});
    await client.query(
      `update emend.backfill set checked_at = $2::timestamptz, problem = $3 where name = $1`,
      [backfill.name, checkedAt, failed.length > 0 ? describeBlocking(failed) : null],
    );
  });
}

/** What can be said before the merge: of the staged rows, and of the diff, which `writeDiff` writes. */
export async function checkInput(
  client: ClientBase,
  { targets }: Promotion,
  backfill: Backfill,
  writeDiff: (client: ClientBase, backfill: string, part: BackfillTarget) => Promise<void>,
): Promise<Finding[]> {
  await client.query(`set local statement_timeout = 0`);
  const findings: Finding[] = [checkRawInput(backfill)];
  for (const part of targets) {
    findings.push(...(await checkStaged(client, backfill, part.target)));
    findings.push(...(await checkAgainstToday(client, backfill, part.target)));
    await writeDiff(client, backfill.name, part);
    findings.push(...(await checkChanges(client, backfill, part.target)));
    findings.push(...(await checkMonths(client, backfill, part.target)));
  }
  return findings;
}

/** A row that the table refuses would refuse the whole promote: better told now. */
async function tryMerge(
  client: ClientBase,
  promotion: Promotion,
  backfill: Backfill,
  k: string,
): Promise<Finding[]> {
  try {
    await mergeStaged(client, promotion, k);
  } catch (error) {
    if (!(error instanceof TableRefusal)) throw error;
    return [
      {
        target: error.target,
        name: 'merge',
        figure: error.said,
        threshold: 'accepted by the table',
        verdict: 'fail',
      },
    ];
  }
  return checkResult(
    client,
    backfill,
    promotion.targets.map(({ target }) => target),
  );
}

/** Rolls the trial back. */
class TrialEnds extends Error {}
