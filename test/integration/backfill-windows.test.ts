import { beforeAll, describe, expect, it } from 'vitest';
import { readPromoteTime } from '../../src/backfill/promote-time.ts';
import { resolveConfig } from '../../src/config/config.ts';
import { timeline } from '../../src/config/define-config.ts';
import type { PromoteTimes } from '../../src/config/define-config.ts';
import { createLogger } from '../../src/observe/logger.ts';
import { showBackfill } from '../../src/pipeline/backfill-report.ts';
import { promote, seal } from '../../src/pipeline/backfill-requests.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const fares = { key: ['route'], period: ['valid_from', 'valid_to'] } as const;

describe('windows of promotes', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('backfill windows', {
      ddl: `create table public.fares (route text not null, valid_from date not null, valid_to date not null, price numeric not null)`,
      targets: { fares: timeline('public.fares', fares) },
    });
  });

  const spans = (times: PromoteTimes, ofTarget?: PromoteTimes) =>
    resolveConfig(
      {
        source: { url: 'postgres://db/app' },
        store: { url: 'postgres://db/store' },
        promote: times,
        targets: { fares: timeline('public.fares', { ...fares, ...(ofTarget && { promote: ofTarget }) }) },
      },
      {},
    ).promote;
  const next = async (times: PromoteTimes, now: string, notBefore: string | null = null) => {
    const found = await readPromoteTime(install.store, spans(times), notBefore, now);
    return found.isNow ? 'now' : found.next;
  };

  describe('by the clock on the wall', () => {
    const nights: PromoteTimes = { timeZone: 'Europe/Vienna', windows: [{ from: '22:00', to: '05:00' }] };

    it.each([
      ['before it opens', '2026-11-29T20:59:59Z', '2026-11-29 21:00:00+00'],
      ['as it opens', '2026-11-29T21:00:00Z', 'now'],
      ['after midnight', '2026-11-30T03:59:59Z', 'now'],
      ['as it closes', '2026-11-30T04:00:00Z', '2026-11-30 21:00:00+00'],
      ['in summer, an hour earlier by UTC', '2026-07-01T20:00:00Z', 'now'],
      ['in summer, as it closes', '2026-07-01T03:00:00Z', '2026-07-01 20:00:00+00'],
    ])('a window over midnight: %s', async (_what, now, expected) => {
      expect(await next(nights, now)).toBe(expected);
    });

    // 2026-03-29: 02:00 CET is 03:00 CEST, at 01:00 UTC; 2026-10-25: 03:00 CEST is 02:00 CET, at 01:00 UTC
    it.each([
      ['an hour that one night has not is left out', '02:10', '02:50', '2026-03-28T20:00:00Z', '2026-03-30 00:10:00+00'],
      ['a window that begins in it opens when the clock is set', '02:30', '05:00', '2026-03-28T20:00:00Z', '2026-03-29 01:00:00+00'],
      ['an hour that comes twice opens twice: the first time', '02:10', '02:50', '2026-10-24T20:00:00Z', '2026-10-25 00:10:00+00'],
      ['between the two', '02:10', '02:50', '2026-10-25T00:50:00Z', '2026-10-25 01:10:00+00'],
      ['a window that the clock is set back into opens then', '02:00', '02:05', '2026-10-25T00:05:00Z', '2026-10-25 01:00:00+00'],
    ])('across a change of the clock: %s', async (_what, from, to, now, expected) => {
      expect(await next({ timeZone: 'Europe/Vienna', windows: [{ from, to }] }, now)).toBe(expected);
    }); // prettier-ignore

    it('a blackout closes a window; days, dates and exceptions say when', async () => {
      const trading: PromoteTimes = {
        timeZone: 'UTC',
        windows: [{ from: '04:00', to: '08:00' }],
        blackouts: [
          { days: ['mon', 'tue', 'wed', 'thu', 'fri'], except: ['2026-12-25'], from: '06:00', to: '08:00' },
          { dates: ['2026-12-31/2027-01-01'] },
        ],
      };
      expect(await next(trading, '2026-12-24T06:00:00Z')).toBe('2026-12-25 04:00:00+00'); // a Thursday
      expect(await next(trading, '2026-12-25T06:00:00Z')).toBe('now'); // no trading on it
      expect(await next(trading, '2026-12-26T06:00:00Z')).toBe('now'); // a Saturday
      expect(await next(trading, '2026-12-31T04:00:00Z')).toBe('2027-01-02 04:00:00+00');
    });

    it('with --at, it is the first opening from then on', async () => {
      expect(await next(nights, '2026-11-29T21:00:00Z', '2026-11-30T12:00:00Z')).toBe(
        '2026-11-30 21:00:00+00',
      );
      expect(await next(nights, '2026-11-29T21:00:00Z', '2026-11-29T23:30:00Z')).toBe(
        '2026-11-29 23:30:00+00',
      );
      expect(await next(nights, '2026-11-29T12:00:00Z', '2026-11-01T00:00:00Z')).toBe(
        '2026-11-29 21:00:00+00',
      );
    });

    it('windows of the whole and of a target hold together, each in its own zone, and it is told which is closed', async () => {
      const both = spans(nights, {
        timeZone: 'UTC',
        windows: [{ days: ['sat'], from: '03:00', to: '09:00' }],
      });
      const found = await readPromoteTime(install.store, both, null, '2026-11-25T22:00:00Z');
      expect(found).toEqual({
        next: '2026-11-28 03:00:00+00',
        isNow: false,
        closedBy: ['targets.fares.promote'],
      });
    });

    it('a window that never opens is told as such, not waited for', async () => {
      const past: PromoteTimes = { timeZone: 'UTC', windows: [{ dates: ['2020-01-01'] }] };
      expect(await next(past, '2026-11-29T12:00:00Z')).toBeNull();
    });
  });

  it.each<[string, PromoteTimes, RegExp]>([
    ['no zone', { windows: [{ from: '22:00' }] }, /promote\.timeZone/],
    ['an offset for a zone', { timeZone: '+01:00', windows: [{ from: '22:00' }] }, /promote\.timeZone/],
    ['an unknown zone', { timeZone: 'Europe/Wien', windows: [{ from: '22:00' }] }, /promote\.timeZone/],
    ['a time that is none', { timeZone: 'UTC', windows: [{ from: '10pm' }] }, /promote\.windows\[0\]\.from/],
    ['an empty window', { timeZone: 'UTC', windows: [{ from: '06:00', to: '06:00' }] }, /promote\.windows\[0\]/],
    ['a date that is none', { timeZone: 'UTC', blackouts: [{ dates: ['2026-02-30'] }] }, /blackouts\[0\]\.dates/],
    ['an empty list', { timeZone: 'UTC', windows: [] }, /promote\.windows/],
    [
      'a window within a blackout, which never opens',
      { timeZone: 'UTC', windows: [{ days: ['sun'], from: '22:00', to: '02:00' }], blackouts: [{ days: ['mon', 'sun'] }] },
      /^promote$/,
    ],
  ])('a configuration with %s is refused', (_what, times, path) => {
    let problems: readonly { path: string }[] = [];
    try {
      spans(times);
    } catch (error) {
      problems = (error as { problems: typeof problems }).problems;
    }
    expect(problems.map((problem) => problem.path)).toEqual([expect.stringMatching(path)]);
  }); // prettier-ignore

  it('times that are numbers are told as such, and not taken for an empty window', () => {
    const times = { timeZone: 'UTC', windows: [{ from: 22, to: 5 }] } as unknown as PromoteTimes;
    let problems: unknown;
    try {
      spans(times);
    } catch (error) {
      problems = (error as { problems: unknown }).problems;
    }
    expect(problems).toEqual(
      ['from', 'to'].map((end) => ({
        path: `promote.windows[0].${end}`,
        problem: 'is a number, not a time of day',
        remedy: expect.stringContaining("as a text, as in '22:00'") as string,
      })),
    );
  });

  /** Times of the store's clock, from now on. */
  const inMinutes = async (...minutes: number[]): Promise<string[]> => {
    const { rows } = await install.store.query<{ at: string }>(
      `select to_char(clock_timestamp() at time zone 'UTC' + m * interval '1 minute', 'HH24:MI') as at from unnest($1::int[]) as m`,
      [minutes],
    );
    return rows.map(({ at }) => at);
  };
  const closedNow = async (): Promise<PromoteTimes> => {
    const [from, to] = await inMinutes(120, 240);
    return { timeZone: 'UTC', windows: [{ from: from!, to: to! }] };
  };
  const withTimes = (times: PromoteTimes) => ({ ...install.config, promote: spans(times) });
  const run = async <T>(times: PromoteTimes, body: (config: typeof install.config) => Promise<T>): Promise<T> => {
    const config = withTimes(times);
    const pipeline = await startPipeline({ config, roles: ['reader', 'worker'], log: createLogger({ level: 'silent' }) });
    pipeline.ended.catch(() => {});
    try {
      return await body(config);
    } finally {
      await pipeline.stop();
    }
  }; // prettier-ignore
  const loaded = async (config: typeof install.config, name: string, boundary: object = {}) => {
    await install.source.query(`select corrections.open_backfill($1, '{fares}', 'a test', 'v1', $2)`, [
      name,
      JSON.stringify(boundary),
    ]);
    await install.source.query(
      `insert into corrections.fares (route, valid_from, valid_to, price, _backfill) values ($1, '2026-09-01', '2026-10-01', 5, $1)`,
      [name],
    );
    await seal(config, name, {});
  };
  const heldRows = async (name: string) =>
    (await install.store.query(`select from public.fares where route = $1`, [name])).rowCount;
  const events = async (name: string) =>
    (await showBackfill(install.config, name)).events.map(({ state, reason }) => `${state}: ${reason}`);

  it('a promote outside of them waits, visibly, and is done when they open: the configuration of the workers decides', async () => {
    await run(await closedNow(), async (config) => {
      await loaded(config, 'waiting');
      const asked = await promote(config, 'waiting', { reason: 'looks right' });
      expect(asked).toMatchObject({ state: 'checked', problem: null, window: ['promote'] });
      const { waits, problem } = await showBackfill(config, 'waiting');
      expect(waits).toEqual({ until: asked.waitsFor, closedBy: ['promote'] });
      expect(problem).toBeNull();
      const { backfills, problems } = await readStatus(config);
      expect(backfills).toContainEqual(expect.objectContaining({ name: 'waiting', waits }));
      expect(problems.filter(({ path }) => path.startsWith('backfills'))).toEqual([]);
      expect(await heldRows('waiting')).toBe(0);
    });
    // the same blackout as it ends: at the next full minute, by the store's clock
    const [from, to] = await inMinutes(-60, 1);
    await run({ timeZone: 'UTC', blackouts: [{ from: from!, to: to! }] }, async () => {
      await eventually(async () => expect(await heldRows('waiting')).toBe(1), { timeoutMs: 90_000 });
    });
    const { rows } = await install.store.query<{ minute: string; waits: string | null }>(
      `select to_char(e.at at time zone 'UTC', 'HH24:MI') as minute, b.wish ->> 'waits' as waits
       from emend.backfill_event e join emend.backfill b on b.name = e.backfill
       where e.backfill = 'waiting' and e.state = 'promoted'`,
    );
    expect(rows[0]!.minute >= to! || to === '00:00').toBe(true);
    expect(rows[0]!.waits).toBeNull();
    expect(await events('waiting')).toContain('promoted: looks right');
  }, 150_000);

  it('while one waits that accepts all that fails, no check is a problem; one that it does not accept is', async () => {
    await run(await closedNow(), async (config) => {
      await loaded(config, 'accepting', { fares: { to: '2026-09-15' } });
      const problems = async () =>
        (await readStatus(config)).problems.filter(({ path }) => path === 'backfills.accepting');
      expect(await problems()).toHaveLength(1);
      const without = await promote(config, 'accepting', { reason: 'looks right' });
      expect(without).toMatchObject({ state: 'checked', window: ['promote'] });
      expect(without.problem).toContain('checks failed: outside_boundary of fares');
      expect(await problems()).toHaveLength(1);
      const accept = { outside_boundary: 'all of September was agreed' };
      const asked = await promote(config, 'accepting', { accept, reason: 'looks right' });
      expect(asked).toMatchObject({ state: 'checked', problem: null, window: ['promote'] });
      const shown = await showBackfill(config, 'accepting');
      expect(shown).toMatchObject({ problem: null, waits: { until: asked.waitsFor } });
      expect(shown.checks.find(({ verdict }) => verdict === 'fail')).toMatchObject({
        name: 'outside_boundary',
        accepted: 'all of September was agreed',
      });
      expect(await problems()).toEqual([]);
    });
  }, 60_000);

  it('one that is promoted by another request says so, and on whose record it stands', async () => {
    await run({ timeZone: 'UTC', windows: [{}] }, async (config) => {
      await loaded(config, 'twice');
      expect(await promote(config, 'twice', { reason: 'looks right' })).toMatchObject({ byOther: null });
      const second = await promote(config, 'twice', { ignoreWindow: true, reason: 'an emergency' });
      expect(second).toMatchObject({ state: 'promoted', problem: null, byOther: { reason: 'looks right' } });
      expect(await events('twice')).not.toContain('promoted: an emergency');
    });
  }, 60_000);

  it('one that is to ignore them is promoted at once, with its reason and what it ignored on record; without a reason it is refused', async () => {
    await run(await closedNow(), async (config) => {
      await loaded(config, 'urgent');
      await expect(promote(config, 'urgent', { ignoreWindow: true })).rejects.toThrow(/without a reason/);
      await expect(
        install.source.query(`select corrections.promote_backfill('urgent', ignore_window => true)`),
      ).rejects.toThrow(/without a reason/);
      const done = await promote(config, 'urgent', { ignoreWindow: true, reason: 'an auditor waits' });
      expect(done).toMatchObject({ state: 'promoted', problem: null, waitsFor: null });
      expect(await events('urgent')).toContain('promoted: an auditor waits (outside of promote)');
    });
  }, 60_000);

  it('one whose window never opens is refused when it is asked for, and nothing is asked', async () => {
    await run({ timeZone: 'UTC', windows: [{ dates: ['2020-01-01'] }] }, async (config) => {
      await loaded(config, 'never');
      await expect(promote(config, 'never', { reason: 'looks right' })).rejects.toMatchObject({
        code: 'backfill_refused',
        message: expect.stringContaining('leaves no time') as string,
      });
      const { rows } = await install.source.query(
        `select from corrections._request where backfill = 'never' and request = 'promote'`,
      );
      expect(rows).toEqual([]);
      // asked in SQL, where nobody knows the configuration: the worker says no
      await install.source.query(`select corrections.promote_backfill('never')`);
      await eventually(async () =>
        expect((await showBackfill(config, 'never')).problem).toContain('leaves no time'),
      );
      expect((await showBackfill(config, 'never')).refusedAt, 'when it was refused').not.toBeNull();
    });
    // asked again, and no worker runs: it is on its way, not refused
    await install.source.query(`select corrections.promote_backfill('never')`);
    expect(await showBackfill(install.config, 'never')).toMatchObject({ asked: 'promoted', refusedAt: null });
  }, 60_000);
});
