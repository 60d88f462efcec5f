import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { allIds } from '../../src/backfill/stage.ts';
import { stageFromLog } from '../../src/backfill/stage-copy.ts';
import { takeOver } from '../../src/backfill/state.ts';
import { defineConfig, timeline } from '../../src/config/define-config.ts';
import { createPool } from '../../src/db/pool.ts';
import { discardDeadLetters } from '../../src/pipeline/dead.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { carryOutRequests, readRequests, withStaging } from '../support/backfill-requests.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

const { targets } = defineConfig({
  targets: { fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }) },
});

describe('a sealed backfill', () => {
  let install: Install;
  let name: string;
  let count = 0;
  beforeAll(async () => {
    install = await createInstall('backfill staging', {
      ddl: `create table public.fares (route text not null, valid_from date not null, valid_to date not null, price numeric)`,
      targets,
    });
  });

  const source = async (sql: string, values: unknown[] = []) =>
    (await install.source.query(sql, values)).rows as Record<string, string | null>[];
  const store = async (sql: string, values: unknown[] = []) =>
    (await install.store.query(sql, values)).rows as Record<string, string | null>[];
  /** Carries out all requests once more, as whoever sweeps them: those that are done are not done again. */
  const work = async () =>
    carryOutRequests(install, install.config.targets, await readRequests(install.source, name));
  const staged = () =>
    store(`select *, xmin::text as written_by from emend.fares_staged where _backfill = $1 order by _id`, [
      name,
    ]);
  const seal = () => source(`select corrections.seal_backfill($1)`, [name]);
  const state = async () =>
    (await store(`select state, problem from emend.backfill where name = $1`, [name]))[0]!;

  beforeEach(async () => {
    name = `b-${++count}`;
    await source(`select corrections.open_backfill($1, '{fares}', 'a test', 'v1')`, [name]);
    await source(
      `insert into corrections.fares (route, valid_from, valid_to, price, _backfill)
       select $1 || '-' || n, '2026-03-01', '2026-04-01', n, $1 from generate_series(1, 3) as n`,
      [name],
    );
    await source(`select corrections.chunk_backfill($1, 'fares')`, [name]);
    await work();
    if ((await staged()).length !== 3) throw new Error('the chunk was not staged');
  });

  it('is staged anew where its target gained a column between staging and seal, and promoted with what the log has in it', async () => {
    await store(`alter table public.fares add column cabin text not null default 'Y'`);
    await migrate({ config: install.config, print: false });
    await seal();
    await work();
    expect(await state()).toEqual({ state: 'checked', problem: null });
    expect((await staged()).map(({ cabin, price }) => [cabin, price])).toEqual([
      ['Y', '1'],
      ['Y', '2'],
      ['Y', '3'],
    ]);
    await source(`select corrections.promote_backfill($1)`, [name]);
    await work();
    expect(await state()).toEqual({ state: 'promoted', problem: null });
    expect(
      await store(`select distinct cabin, _backfill from public.fares where route like $1 || '-%'`, [name]),
    ).toEqual([{ cabin: 'Y', _backfill: name }]);
    expect((await verify(install.config))[0]!.found).toEqual({});
  });

  it.each([
    ['before its chunks are staged', 'seats'],
    ['when they have been', 'meals'],
  ])(
    'goes on under the columns that were sealed where its target gains one after that, %s; also with a row that is dismissed',
    async (when, column) => {
      if (when.startsWith('before')) {
        await store(`delete from emend.fares_staged where _backfill = $1`, [name]);
        await store(`delete from emend.backfill_request where backfill = $1`, [name]);
      }
      await source(
        `insert into corrections.fares (route, valid_from, valid_to, price, _backfill) values ('bad', '2026-03-01', '2026-04-01', 99, $1)`,
        [name],
      );
      await store(`alter table emend.fares_staged add constraint refused check (price <> 99)`);
      await seal();
      await store(`alter table public.fares add column ${column} int not null default 7`);
      await migrate({ config: install.config, print: false });
      await work();
      expect((await state())['problem']).toContain('1 row of fares is set aside');
      const letters = await store(
        `select _id from emend.dead_letter_open where log_row ->> '_backfill' = $1`,
        [name],
      );
      await discardDeadLetters(
        install.config,
        letters.map(({ _id }) => _id!),
        'not ours',
      );
      await work();
      expect(await state()).toEqual({ state: 'checked', problem: null });
      expect((await staged()).map((row) => row[column])).toEqual(['7', '7', '7']);
      await source(`select corrections.promote_backfill($1)`, [name]);
      await work();
      expect(await state()).toEqual({ state: 'promoted', problem: null });
      await store(`alter table emend.fares_staged drop constraint refused`);
    },
  );

  it('is staged anew where rows are gone though all of its chunks are done, as by a kill between taking away and staging', async () => {
    await store(`delete from emend.fares_staged where _backfill = $1 and price > 1`, [name]);
    await seal();
    await work();
    expect(await state()).toEqual({ state: 'checked', problem: null });
    expect(await staged()).toHaveLength(3);
  });

  it('has each row once and unchanged, though its rows are staged again, and by two at once', async () => {
    const stretch = { backfill: name, target: install.targets[0]!, ...allIds };
    const before = await staged();
    await withStaging(install.store, async (pool) => {
      const stage = () => stageFromLog({ source: install.source, store: pool }, stretch);
      await stage();
      expect(await staged()).toEqual(before);
      await store(`delete from emend.fares_staged where _backfill = $1 and price = 2`, [name]);
      await stage();
      expect(await staged()).toHaveLength(3);
      await store(`delete from emend.fares_staged where _backfill = $1`, [name]);
      await Promise.all([stage(), stage()]);
      expect(await staged()).toHaveLength(3);
    });
    await seal();
    await work();
    expect(await state()).toEqual({ state: 'checked', problem: null });
  });

  it('is staged also where the store denies temporary tables', async () => {
    const role = `stager_${Date.now()}`;
    const url = new URL(install.config.store.url);
    const database = url.pathname.slice(1);
    await store(`create role ${role} login password 'stager'`);
    await store(`grant usage on schema emend to ${role}`);
    await store(`grant all on all tables in schema emend to ${role}`);
    await store(`revoke temporary on database ${database} from public`);
    [url.username, url.password] = [role, 'stager'];
    const limited = createPool({ url: url.href, applicationName: 'emend test' });
    try {
      const target = install.targets[0]!;
      await store(`delete from emend.fares_staged where _backfill = $1`, [name]);
      await stageFromLog({ source: install.source, store: limited }, { backfill: name, target, ...allIds });
      expect(await staged()).toHaveLength(3);
    } finally {
      await limited.end();
      await store(`grant temporary on database ${database} to public`);
      await store(`drop owned by ${role}`);
      await store(`drop role ${role}`);
    }
  });

  it('keeps what was sealed, though a worker that read it before the seal writes after one that read it later', async () => {
    const slow = createPool({ url: install.config.store.url, applicationName: 'emend test', max: 1 });
    const only = await slow.connect();
    const stale = takeOver(install.source, slow, name);
    await eventually(() => expect(slow.waitingCount).toBe(1));
    await seal();
    await takeOver(install.source, install.store, name);
    only.release();
    expect((await stale)!.sealed).toMatchObject({ fares: { rows: 3 } });
    await slow.end();
    await work();
    expect(await state()).toEqual({ state: 'checked', problem: null });
  });

  it.each(['commit', 'rollback'])(
    'is not taken for one without rows by a worker that is told of the seal before its transaction can be seen (%s)',
    async (end) => {
      const client = await install.source.connect();
      await client.query('begin');
      await client.query(`select corrections.seal_backfill($1)`, [name]);
      const told = (await readRequests(client, name)).filter(({ request }) => request === 'seal');
      const carried = carryOutRequests(install, install.config.targets, told).then(
        () => 'carried out',
        (error: unknown) => (error as { code: string }).code,
      );
      expect(await Promise.race([carried, sleep(200, 'waits')])).toBe('waits');
      await client.query(end);
      client.release();
      expect(await carried).toBe(end === 'commit' ? 'carried out' : 'backfill_busy');
      expect(await state()).toEqual({ state: end === 'commit' ? 'checked' : 'open', problem: null });
    },
  );

  it('waits while a chunk is on its way, and nothing is taken away meanwhile', async () => {
    const before = await staged();
    await source(
      `insert into corrections.fares (route, valid_from, valid_to, price, _backfill) values ('late', '2026-03-01', '2026-04-01', 1, $1)`,
      [name],
    );
    await seal();
    const requests = await readRequests(install.source, name);
    await carryOutRequests(
      install,
      install.config.targets,
      requests.filter(({ request }) => request === 'seal'),
    );
    expect(await state()).toEqual({ state: 'sealed', problem: null });
    expect(await staged()).toEqual(before);
    await work();
    expect(await state()).toEqual({ state: 'checked', problem: null });
  });

  it('is told where staging anew does not help, and not staged again and again', async () => {
    await seal();
    await source(
      `update corrections._backfill set sealed = jsonb_set(sealed, '{fares,digest}', '"1"') where name = $1`,
      [name],
    );
    await work();
    expect(await state()).toEqual({
      state: 'sealed',
      problem: expect.stringContaining('other rows of fares than were sealed') as string,
    });
    const before = await staged();
    await work();
    expect(await staged()).toEqual(before);
  });
});
