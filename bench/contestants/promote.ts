import type { Pool } from 'pg';
import { check } from '../../src/backfill/check.ts';
import { promote } from '../../src/backfill/promote.ts';
import type { Promotion } from '../../src/backfill/promotion.ts';
import { revert } from '../../src/backfill/revert.ts';
import { readBackfill } from '../../src/backfill/state.ts';
import { withClient } from '../../src/db/transaction.ts';
import { prepareTargets } from '../../src/merge/prepared-target.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { backfillRowsSql, expectPrices } from '../data/backfill-rows.ts';
import type { BackfillRows, Spread } from '../data/backfill-rows.ts';
import { piecesPerKey } from '../data/corrections.ts';
import { openEmendStore } from '../data/emend-store.ts';
import { timelineLayout } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';

/**
 * emend's promote of a checked backfill, with ledger, history, fence and all checks anew inside it. Each is checked before and
 * reverted after, which is timed by itself: so all rounds begin with what stood at first.
 */
export function promoteBackfills(name: string, spread: Spread): Contestant<BackfillRows> {
  const layout = timelineLayout({
    keys: spread.keys * spread.apart,
    form: 'text',
    exclusion: false,
    historyPerKey: 0,
  });
  return {
    name,
    open: async (servers) => {
      const store = await openEmendStore(servers, layout);
      const { pool } = store;
      const resolved = await withClient(pool, (client) => resolveTargets(client, [layout.declaration]));
      const targets = [...(await prepareTargets(pool, resolved, '$1::timestamptz')).values()];
      // numbers behind those of the rows of the beginning
      const firstId = spread.keys * spread.apart * piecesPerKey;
      return {
        prepare: async (rows) => {
          const count = rows.last - rows.first + 1;
          const backfill = `b-${rows.first}`;
          const promotion: Promotion = { store: pool, backfill, targets };
          await stage(pool, backfill, spread, rows, firstId);
          await pool.query('checkpoint');
          const clock = store.startClock();
          const also: Record<string, number> = {};
          const timed = async (what: string, run: () => Promise<void>): Promise<number> => {
            const start = performance.now();
            await run();
            also[`${name}: ${what}`] = ((performance.now() - start) * 1_000) / count;
            return performance.now() - start;
          };
          return {
            rows: count,
            run: async () => {
              const now = async () => (await readBackfill(pool, backfill))!;
              await timed('check', async () => check(promotion, await now()));
              const start = performance.now();
              const wish = {
                request: String(rows.first),
                actor: 'bench',
                reason: 'bench',
                accept: { contradictions: 'the later row is meant' },
                at: null,
              };
              await promote(promotion, await now(), { ...wish, ignoreWindow: false });
              const microseconds = (performance.now() - start) * 1_000;
              await expectPrices(pool, spread, rows);
              await timed('revert', () => revert(promotion, requestOf(backfill, rows)));
              return microseconds;
            },
            more: () => also,
            rest: () => clock.stop(),
          };
        },
        verify: () => expectPrices(pool, spread, null),
        close: () => store.close(),
      };
    },
  };
}

function requestOf(backfill: string, { last }: BackfillRows) {
  const asked = { details: {}, actor: 'bench', reason: 'bench', askedAt: '2026-11-29 12:00:00+00' };
  return { id: String(last), backfill, request: 'revert', ...asked };
}

/** As staging leaves it. Digests are 0, and their sum is what was sealed. */
export async function stage(
  pool: Pool,
  backfill: string,
  spread: Spread,
  rows: BackfillRows,
  firstId: number,
): Promise<void> {
  const sealed = { prices: { rows: rows.last - rows.first + 1, digest: '0', columns: ['_id'] } };
  await pool.query(
    `insert into emend.backfill (name, targets, boundary, origin, checks, state, sealed, opened_at)
     values ($1, '{prices}', '{}', '{}', '{}', 'staged', $2, clock_timestamp())`,
    [backfill, JSON.stringify(sealed)],
  );
  await pool.query(
    `insert into emend.prices_staged (_id, _op, _nonce, _recorded_at, _backfill, _actor, _digest, product_id, valid_from, valid_to, price)
     select ${firstId} + r.n, 'upsert', r.n * 7919, timestamptz '2026-11-29 12:00:00+00', $1, 'bench', 0,
       r.product_id, r.valid_from, r.valid_to, r.price
     from (${backfillRowsSql(spread, rows)}) as r`,
    [backfill],
  );
}
