import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { prices } from '../support/prices.ts';

const backfilled = 100_000;
/** Of them have answers before. */
const before = 20_000;

function tools({ source, store }: Install) {
  return {
    source: async (sql: string, values: unknown[] = []) => (await source.query(sql, values)).rows,
    store: async (sql: string, values: unknown[] = []) => (await store.query(sql, values)).rows,
  };
}

describe('while a large backfill is promoted', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('backfill fence', prices);
    await install.start();
  });

  it(
    'other keys are merged within a second, fenced ones right after, and readers see all of it or nothing',
    { timeout: 240_000 },
    async () => {
      const { source, store } = tools(install);
      await write(source, before, null);
      await install.wait();
      // committed while the fence stands, with a number below those of the backfill
      const early = new pg.Client({ connectionString: install.config.source.url });
      await early.connect();
      await early.query('begin');
      await early.query(
        `insert into corrections.prices (product, valid_from, valid_to, price) values ('k2', '2026-03-10', '2026-03-20', 2)`,
      );
      await source(`select corrections.open_backfill('large', '{prices}', 'a test', 'v1')`);
      await write(source, backfilled, 'large');
      await source(`select corrections.seal_backfill('large')`);
      await eventually(
        async () => expect(await stateOf('large')).toEqual([{ state: 'checked', problem: null }]),
        { timeoutMs: 120_000 },
      );
      expect(await store(`select count(*) from emend.prices_staged`)).toEqual([
        { count: String(backfilled) },
      ]);

      let isOver = false;
      const during = async <T>(step: () => Promise<T>): Promise<T[]> => {
        const results: T[] = [];
        while (!isOver) results.push(await step());
        return results;
      };
      const seen = during(async () => Number((await store(ofBackfill))[0]!.rows));
      const answers = during(async () => {
        await sleep(20);
        const [{ at }] = await store(`select emend.settled()::text as at`);
        return { at, answer: await asOf(at) };
      });
      let live = 0;
      const liveWrite = async (): Promise<{ ms: number; fenced: boolean }> => {
        const start = performance.now();
        const [{ _id }] = await source(
          `insert into corrections.prices (product, valid_from, valid_to, price) values ($1, '2026-01-01', 'infinity', 1) returning _id`,
          [`other ${(live += 1)}`],
        );
        await eventually(async () =>
          expect(await store(`select from emend.ledger where _id = $1`, [_id])).toHaveLength(1),
        );
        return {
          ms: performance.now() - start,
          fenced: (await store(`select from emend.fence_of`)).length > 0,
        };
      };
      // four at once: enough of them also where the machine is slow
      const latencies = Promise.all(Array.from({ length: 4 }, () => during(liveWrite)));

      await source(`select corrections.promote_backfill('large')`);
      await eventually(async () => expect(await store(`select from emend.fence_of`)).toHaveLength(1));
      // one transaction with a key of the backfill and another: parked as a whole
      await source(
        `insert into corrections.prices (product, valid_from, valid_to, price)
         values ('k1', '2026-03-10', '2026-03-20', 9), ('beside k1', '2026-01-01', 'infinity', 9)`,
      );
      await early.query('commit');
      await early.end();
      let wasParked = true;
      await eventually(
        async () => {
          const [now] = await store(
            `select exists (select from public.prices where product = 'beside k1') as merged, state from emend.backfill`,
          );
          if (now.merged === 't' && now.state !== 'promoted') wasParked = false;
          expect(now.state).toBe('promoted');
        },
        { timeoutMs: 120_000 },
      );
      expect(wasParked, 'the live transaction waited for the promote').toBe(true);
      await eventually(
        async () =>
          expect(await store(`select from public.prices where product = 'beside k1'`)).toHaveLength(1),
        { timeoutMs: 3_000 },
      );
      await install.wait();
      isOver = true;

      expect(await piecesOf('k1')).toEqual([
        ['2026-01-01', '2026-03-01', '1'],
        ['2026-03-01', '2026-03-10', '5'],
        ['2026-03-10', '2026-03-20', '9'],
        ['2026-03-20', '2026-04-01', '5'],
        ['2026-04-01', 'infinity', '1'],
      ]);
      expect(await piecesOf('k2')).toEqual([
        ['2026-01-01', '2026-03-01', '1'],
        ['2026-03-01', '2026-04-01', '5'],
        ['2026-04-01', 'infinity', '1'],
      ]);

      const counts = new Set(await seen);
      // k1 alone has two pieces of it, from the live correction on
      expect(
        [...counts].filter((rows) => rows !== 0 && rows < backfilled),
        'half of it was seen',
      ).toEqual([]);
      expect([counts.has(0), Math.max(...counts) >= backfilled], 'seen before and after').toEqual([
        true,
        true,
      ]);

      const whileFenced = (await latencies)
        .flat()
        .filter(({ fenced }) => fenced)
        .map(({ ms }) => ms);
      expect(whileFenced.length, 'live corrections while the fence stood').toBeGreaterThan(20);
      whileFenced.sort((one, other) => one - other);
      expect(whileFenced[Math.floor(whileFenced.length * 0.99)], 'p99 of live corrections, ms').toBeLessThan(
        1_000,
      );

      const given = await answers;
      expect(new Set(given.map(({ answer }) => answer)).size, 'different answers').toBeGreaterThan(1);
      const changed: string[] = [];
      for (const { at, answer } of given) if ((await asOf(at)) !== answer) changed.push(at);
      expect(changed, `of ${given.length} answers`).toEqual([]);
    },
  );

  const ofBackfill = `select count(*) as rows from public.prices where _backfill = 'large'`;

  async function write(
    source: ReturnType<typeof tools>['source'],
    rows: number,
    backfill: string | null,
  ): Promise<void> {
    for (let first = 1; first <= rows; first += 5_000)
      await source(
        `insert into corrections.prices (product, valid_from, valid_to, price, _backfill)
         select 'k' || n, $3::date, $4::date, $5, $6 from generate_series($1::int, $2::int) n`,
        [
          first,
          Math.min(first + 4_999, rows),
          ...(backfill ? ['2026-03-01', '2026-04-01', 5] : ['2026-01-01', 'infinity', 1]),
          backfill,
        ],
      );
  }

  const stateOf = async (name: string) =>
    (await install.store.query(`select state, problem from emend.backfill where name = $1`, [name])).rows;

  async function asOf(at: string): Promise<string> {
    const { rows } = await install.store.query<{ answer: string }>(
      `select coalesce(jsonb_agg(to_jsonb(p) - '_known_to' order by product, valid_from), '[]')::text as answer
       from emend.prices_as_of($1::timestamptz) p
       where product = any ('{k1,k2,k3,k50000,other 1,other 40}')`,
      [at],
    );
    return rows[0]!.answer;
  }

  async function piecesOf(product: string): Promise<(string | null)[][]> {
    const { rows } = await install.store.query<(string | null)[]>({
      text: `select valid_from, valid_to, price from public.prices where product = $1 order by valid_from`,
      values: [product],
      rowMode: 'array',
    });
    return rows;
  }
});
