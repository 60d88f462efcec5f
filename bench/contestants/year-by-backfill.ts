import { promote } from '../../src/backfill/promote.ts';
import type { Promotion } from '../../src/backfill/promotion.ts';
import { check } from '../../src/backfill/check.ts';
import { readBackfill } from '../../src/backfill/state.ts';
import { withClient, withTransaction } from '../../src/db/transaction.ts';
import { prepareTargets } from '../../src/merge/prepared-target.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { openEmendStore } from '../data/emend-store.ts';
import { expectReport, reportSql, yearLayout } from '../data/year-of-sales.ts';
import type { RouteMonth, Year } from '../data/year-of-sales.ts';
import type { Contestant } from '../harness/contestant.ts';

/** A backfill of the month, promoted with all that belongs to it; then the days of the report that its diff names, anew. */
export function yearByBackfill(name: string, year: Year): Contestant<RouteMonth> {
  const layout = yearLayout(year);
  return {
    name,
    open: async (servers) => {
      const store = await openEmendStore(servers, layout);
      const { pool } = store;
      const resolved = await withClient(pool, (client) => resolveTargets(client, [layout.declaration]));
      const targets = [...(await prepareTargets(pool, resolved, '$1::timestamptz')).values()];
      let rounds = 0;
      return {
        prepare: async (month) => {
          rounds += 1;
          const backfill = `b-${rounds}`;
          await pool.query(
            `insert into emend.backfill (name, targets, boundary, origin, checks, state, sealed, opened_at)
             values ($1, '{fares}', '{}', '{}', '{}', 'staged', '{"fares": {"rows": 1, "digest": "0", "columns": ["_id"]}}', clock_timestamp())`,
            [backfill],
          );
          await pool.query(
            `insert into emend.fares_staged (_id, _op, _nonce, _recorded_at, _backfill, _actor, _digest, route, valid_from, valid_to, price)
             values (1000000000 + $1::bigint, 'upsert', $1::bigint, timestamptz '2026-11-29 12:00:00+00', $2, 'bench', 0, $3, $4::date, $5::date, $6::numeric)`,
            [rounds, backfill, month.route, month.from, month.to, month.price],
          );
          const clock = store.startClock();
          const promotion: Promotion = { store: pool, backfill, targets };
          const now = async () => (await readBackfill(pool, backfill))!;
          return {
            rows: 1,
            run: async () => {
              const start = performance.now();
              await check(promotion, await now());
              const wish = { request: String(rounds), actor: 'bench', reason: 'bench', accept: {}, at: null };
              await promote(promotion, await now(), { ...wish, ignoreWindow: false });
              await withTransaction(pool, async (client) => {
                const days = [month.route, month.from, month.to];
                await client.query(
                  `delete from public.report where route = $1 and day >= $2::date and day < $3::date`,
                  days,
                );
                await client.query(
                  `insert into public.report ${reportSql('s.route = $1 and s.sold_on >= $2::date and s.sold_on < $3::date')}`,
                  days,
                );
              });
              const microseconds = (performance.now() - start) * 1_000;
              await expectReport(pool, month);
              return microseconds;
            },
            rest: () => clock.stop(),
          };
        },
        verify: async () => {}, // each round was
        close: () => store.close(),
      };
    },
  };
}
