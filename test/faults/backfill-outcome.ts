import type { Pool } from 'pg';
import { eventually } from '../support/eventually.ts';
import { nameOf } from './backfill-author.ts';
import type { BackfillPlan } from './program.ts';

/** A backfill as the store has it in the end. */
export interface BackfillOutcome {
  /** `unknown`: nothing was asked of it that came to the store. */
  readonly state: string;
  /** Times of belief, in microseconds; null: it was never promoted, or never reverted. */
  readonly toldAt: number | null;
  readonly revertedAt: number | null;
}

/** Workers that were killed come back after their locks and a few looks. */
const settledWithinMs = 90_000;

/** Once nothing moves any more: everything that was asked was answered, and what was asked last is so. */
export async function settledBackfills(
  { source, store }: { readonly source: Pool; readonly store: Pool },
  plans: readonly BackfillPlan[],
): Promise<Map<string, BackfillOutcome>> {
  return eventually(
    async () => {
      const outcomes = await readOutcomes(store, plans);
      const wrong = plans.flatMap((plan, place) => {
        const { state } = outcomes.get(nameOf(place))!;
        return endsOf(plan).includes(state) ? [] : [`${nameOf(place)} is ${state}`];
      });
      const left = [...wrong, ...(await unanswered(source, store)), ...(await leftOver(store))];
      if (left.length > 0) throw new Error(`backfills that do not come to their end: ${left.join('; ')}`);
      return outcomes;
    },
    { timeoutMs: settledWithinMs },
  );
}

function endsOf({ fate, parts }: BackfillPlan): string[] {
  if (fate === 'sealed') return ['checked'];
  // where the revert overtook the promote, there was nothing to take back, and there never will be
  if (fate === 'reverted') return ['reverted', 'abandoned'];
  if (fate === 'open') return [parts.some(({ isChunked }) => isChunked) ? 'open' : 'unknown'];
  return [fate];
}

async function readOutcomes(
  store: Pool,
  plans: readonly BackfillPlan[],
): Promise<Map<string, BackfillOutcome>> {
  const { rows } = await store.query<{
    name: string;
    state: string;
    told: string | null;
    reverted: string | null;
  }>(
    `select name, state, (extract(epoch from told_at) * 1000000)::bigint as told,
            (extract(epoch from reverted_at) * 1000000)::bigint as reverted
     from emend.backfill`,
  );
  const micro = (text: string | null): number | null => (text === null ? null : Number(text));
  const found = new Map(
    rows.map(({ name, state, told, reverted }) => [
      name,
      { state, toldAt: micro(told), revertedAt: micro(reverted) },
    ]),
  );
  const unknown = { state: 'unknown', toldAt: null, revertedAt: null };
  return new Map(plans.map((_, place) => [nameOf(place), found.get(nameOf(place)) ?? unknown]));
}

async function unanswered(source: Pool, store: Pool): Promise<string[]> {
  const asked = await source.query<{ id: string }>(`select _id::text as id from corrections._request`);
  const answered = await store.query<{ id: string }>(`select _id::text as id from emend.backfill_request`);
  const ids = new Set(answered.rows.map(({ id }) => id));
  return asked.rows.filter(({ id }) => !ids.has(id)).map(({ id }) => `request ${id} was not carried out`);
}

async function leftOver(store: Pool): Promise<string[]> {
  const { rows } = await store.query<{ what: string }>(
    `select 'a fence' as what from emend.fence
     union select 'a fence' from emend.fence_of
     union select 'a wish of ' || name from emend.backfill where wish is not null
     union select name || ': ' || problem from emend.backfill where problem is not null and state <> 'checked'`,
  );
  return rows.map(({ what }) => what);
}
