import { once } from 'node:events';
import pg from 'pg';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { rebuild } from '../../src/pipeline/rebuild.ts';
import { stopAt } from '../support/backfill-work.ts';
import type { Stop, Stopped } from '../support/backfill-work.ts';
import { eventually } from '../support/eventually.ts';
import { environmentOf } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createFilled, ofRebuild, swapNow } from '../support/rebuild.ts';
import { createCli } from '../support/run-cli.ts';

interface Death {
  readonly at: string;
  readonly stop: Stop;
}

const deaths: Death[] = [
  { at: 'its beginning', stop: { table: 'emend.rebuild', when: ofRebuild } },
  { at: 'the end of the fold', stop: { table: 'emend.rebuild', on: 'update', when: `exists (select from emend.rebuild r where r.found is not null and r.outcome is null)` } },
  { at: 'raising the fence', stop: { table: 'emend.fence', when: ofRebuild } },
  { at: 'writing the target', stop: { table: 'public.prices', when: ofRebuild } },
  { at: 'writing the shadows, last', stop: { table: 'emend.prices_shadow', when: ofRebuild } },
  { at: 'the end of the swap', stop: { table: 'emend.rebuild', on: 'update', when: `exists (select from emend.rebuild r where r.outcome = 'swapped' and r.xmin = pg_current_xact_id()::xid)` } },
]; // prettier-ignore

describe('a rebuild that is killed with kill -9', () => {
  let install: Install;
  let cli: ReturnType<typeof createCli>;
  let right: unknown;

  beforeAll(async () => {
    install = await createFilled('rebuild kill');
    cli = createCli(
      `import { defineConfig, facts, timeline } from 'emend'
       export default defineConfig({ targets: {
         prices: timeline('prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
         orders: facts('orders', { key: ['id'] }),
       } })`,
      environmentOf(install),
    );
    right = await content();
  });

  beforeEach(async () => {
    await install.store.query(
      `update public.prices set price = -1 where product < 'p3'; delete from public.prices where product > 'p4';
       update emend.prices_history set price = -2; delete from emend.prices_shadow`,
    );
  });

  const content = async () => {
    const of = async (table: string) =>
      (await install.store.query<{ row: string }>(`select t::text as row from ${table} t order by 1`)).rows;
    return Promise.all(['public.prices', 'emend.prices_history', 'emend.prices_shadow'].map(of));
  };

  async function killAt(reached: () => Promise<void>): Promise<void> {
    const started = cli.start(['rebuild', 'prices', '--swap', '--reason', 'a test']);
    await Promise.race([
      eventually(reached, { timeoutMs: 60_000 }),
      started.ended.then(({ stderr }) => Promise.reject(new Error(`it came to its end: ${stderr}`))),
    ]);
    started.process.kill('SIGKILL');
    await once(started.process, 'close').catch(() => {});
  }

  /** The table is whole as it was; what is left behind is found and removed by the next one. */
  async function expectNextToBeRight(damaged: unknown, release: () => Promise<void>): Promise<void> {
    expect(await content(), 'while its session may go on').toEqual(damaged);
    await release();
    await eventually(async () =>
      expect((await install.store.query(`select from pg_stat_activity where ${ofOwnDatabase}`)).rows).toEqual(
        [],
      ),
    );
    expect(await content(), 'when all of it is gone').toEqual(damaged);
    const next = await rebuild(install.config, 'prices', swapNow);
    expect(next).toMatchObject({ outcome: 'swapped', leftAlone: 0 });
    expect(await content()).toEqual(right);
    const { rows } = await install.store.query(
      `select (select string_agg(outcome, ', ' order by id) from (select * from emend.rebuild order by id desc limit 2) r) as outcomes,
         (select count(*) from pg_class where relname like 'prices_rebuilt%') as tables,
         (select count(*) from emend.fence) + (select count(*) from emend.fence_of) as fences`,
    );
    expect(rows).toEqual([{ outcomes: 'died, swapped', tables: '0', fences: '0' }]);
  }

  it.each(deaths)('at $at leaves the old table whole, and the next one is right', async ({ stop }) => {
    const damaged = await content();
    const stopped: Stopped = await stopAt(install, stop);
    await killAt(() => stopped.reached());
    await expectNextToBeRight(damaged, () => stopped.release());
  });

  it('during the fold leaves the old table whole, and the next one is right', async () => {
    const damaged = await content();
    // the fold waits for the history as soon as it wants to read it
    const holder = new pg.Client({ connectionString: install.config.store.url });
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query(`begin; lock table emend.prices_tombstone in access exclusive mode`);
    await killAt(async () => {
      const { rows } = await install.store.query(
        `select from pg_locks l join pg_stat_activity a using (pid) where not l.granted and l.relation = 'emend.prices_tombstone'::regclass and a.application_name = 'emend rebuild'`,
      );
      expect(rows).toHaveLength(1);
    });
    await expectNextToBeRight(damaged, async () => void (await holder.query('commit')));
  });
});

const ofOwnDatabase = `datname = current_database() and application_name = 'emend rebuild'`;
