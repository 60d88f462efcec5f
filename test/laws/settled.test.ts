import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startClock } from '../../src/store/clock.ts';
import type { Clock } from '../../src/store/clock.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually } from '../support/eventually.ts';
import { batchOf, createStore, logRows, noAbort, silentLog } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';

const seconds = Number(process.env.EMEND_SETTLED_SECONDS ?? 5);

describe('an answer once given never changes', () => {
  let store: StoreUnderTest;
  let clock: Clock;

  beforeAll(async () => {
    const { storeUrl } = await createDatabases('settled');
    store = await createStore(
      storeUrl,
      `create table public.x (k text not null, f integer not null, t integer not null, v text)`,
      [{ name: 'x', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'override' } }],
      { connections: 14 },
    );
    clock = startClock(store.pool, silentLog);
  });
  afterAll(async () => {
    await clock?.stop();
    await store?.pool.end();
  });

  it(
    'while eight connections merge',
    async () => {
      const end = Date.now() + seconds * 1000;
      let id = 0;
      let merges = 0;
      const answers: { at: string; answer: string }[] = [];
      const lags: number[] = [];
      const random = (below: number) => Math.floor(Math.random() * below);

      async function merger(): Promise<void> {
        while (Date.now() < end) {
          const rows = Array.from({ length: 1 + random(4) }, () => {
            const from = random(30);
            return {
              _id: ++id,
              _op: random(5) ? 'upsert' : 'retract',
              k: `k${random(3)}`,
              f: from,
              t: from + 1 + random(8),
              v: String(id),
            };
          });
          const withValues = rows.map((row) => (row._op === 'retract' ? { ...row, v: null } : row));
          await store.handle(batchOf(logRows(store.targets[0]!, withValues)), noAbort);
          merges++;
        }
      }
      async function ask(at: string): Promise<string> {
        const { rows } = await store.pool.query<{ answer: string }>(
          `select coalesce(jsonb_agg(to_jsonb(x) - '_known_to' order by k, f), '[]')::text as answer from emend.x_as_of($1::timestamptz) x`,
          [at],
        );
        return rows[0]!.answer;
      }
      async function reader(): Promise<void> {
        while (Date.now() < end) {
          const { rows } = await store.pool.query<{ at: string; lag: string }>(
            `select (emend.settled() - random() * interval '20 ms')::text as at,
             extract(epoch from clock_timestamp() - emend.settled()) * 1000 as lag`,
          );
          lags.push(Number(rows[0]!.lag));
          answers.push({ at: rows[0]!.at, answer: await ask(rows[0]!.at) });
        }
      }
      await Promise.all([...Array.from({ length: 8 }, merger), reader(), reader(), reader()]);

      expect(merges).toBeGreaterThan(100);
      expect(
        new Set(answers.map(({ answer }) => answer)).size,
        'the answers differ from each other',
      ).toBeGreaterThan(10);
      const changed: string[] = [];
      for (const { at, answer } of answers) if ((await ask(at)) !== answer) changed.push(at);
      expect(changed, `of ${answers.length} answers`).toEqual([]);
      lags.sort((one, other) => one - other);
      expect(lags[Math.floor(lags.length * 0.99)], 'p99 of the lag of settled(), ms').toBeLessThan(200);
    },
    (seconds + 60) * 1000,
  );

  it('refuses a time that is not settled yet, and says up to when answers are final', async () => {
    const asking = store.pool.query(`select * from emend.x_as_of(clock_timestamp() + interval '1 hour')`);
    await expect(asking).rejects.toThrow(/not settled yet; answers are final up to/);
  });

  it('is refused for the time that a restored store has lost, on either way of being told (F17)', async () => {
    const settledAt = async () =>
      (await store.pool.query<{ at: string }>(`select settled::text as at from emend.clock`)).rows[0]!.at;
    const ask = (at: string) => store.pool.query(`select * from emend.x_as_of($1::timestamptz)`, [at]);
    const before = await settledAt();
    await clock.stop();
    // what a restore from a base backup, or a failover, looks like from inside
    await store.pool.query(`update emend.clock set server = '1/00000001'`);
    clock = startClock(store.pool, silentLog);
    await eventually(async () => {
      const { rows } = await store.pool.query(`select from emend.clock_gap where until < emend.settled()`);
      expect(rows).toHaveLength(1);
    });
    const { rows } = await store.pool.query<{ after: string; until: string; inside: string }>(
      `select after::text as after, until::text as until, (until - interval '1 microsecond')::text as inside from emend.clock_gap`,
    );
    const [gap] = rows;
    await expect(ask(gap!.inside)).rejects.toThrow('the store was restored, and has lost the time from');
    await ask(before);
    await ask(gap!.after);
    await ask(await settledAt());

    const { rows: told } = await store.pool.query<{ until: string }>(
      `select until::text as until from emend.record_clock_gap('the folder was copied back')`,
    );
    await eventually(async () => expect((await settledAt()) > told[0]!.until).toBe(true));
    await expect(ask(told[0]!.until)).rejects.toThrow('has lost the time from');
  });

  it('can be waited for, and the waiting ends when nothing moves the clock', async () => {
    const { rows } = await store.pool.query<{ at: string }>(`select clock_timestamp()::text as at`);
    await store.pool.query(`select emend.await_settled($1::timestamptz)`, [rows[0]!.at]);
    await store.pool.query(`select * from emend.x_as_of($1::timestamptz)`, [rows[0]!.at]);
    const waiting = store.pool.query(
      `select emend.await_settled(now() + interval '1 hour', interval '100 milliseconds')`,
    );
    await expect(waiting).rejects.toThrow(/is not settled after 00:00:00.1; answers are final up to/);
  });
});
