import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import { archive } from '../../src/pipeline/archive.ts';
import { abandon } from '../../src/pipeline/backfill-requests.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { readSources } from '../../src/pipeline/sources.ts';
import type { SourcesRequest } from '../../src/pipeline/sources.ts';
import { createFolder } from '../support/archive.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';

const { targets } = defineConfig({
  targets: { orders: facts('public.orders', { key: ['id'] }), items: facts('public.items', { key: ['id'] }) },
});
const ddl = `
  create table public.orders (id integer primary key, amount integer);
  create table public.items (id integer primary key, amount integer)`;

describe('sources', () => {
  let install: Install;
  let folder: string;
  beforeEach(async () => {
    install = await createInstall('sources', { ddl, targets });
    folder = createFolder();
  });

  /** As if it had been written so many days ago. */
  const order = (ids: number[], daysAgo: number) =>
    install.source.query(
      `insert into corrections.orders (id, amount, _recorded_at)
       select i, i, date_trunc('day', now()) - $2::integer * interval '1 day' from unnest($1::integer[]) as i`,
      [ids, daysAgo],
    );
  const day = async (daysAgo: number): Promise<string> => {
    const { rows } = await install.source.query<{ day: string }>(
      `select (date_trunc('day', now()) - $1::integer * interval '1 day')::text as day`,
      [daysAgo],
    );
    return rows[0]!.day;
  };
  const move = async (daysAgo: number) =>
    archive(install.config, { target: 'orders', before: await day(daysAgo), to: folder, rowsPerFile: 2 });
  const problems = async (request?: SourcesRequest, keepDays = 0) =>
    (await readSources({ ...install.config, log: { keepDays } }, request)).problems.map(
      ({ path, problem, remedy }) => `${path}: ${problem} → ${remedy}`,
    );

  it('says of each log what is in it and what in files, and from when on all can be replayed', async () => {
    await install.start();
    await order([1, 2, 3], 30);
    await order([4], 20);
    await order([5], 10);
    await install.wait();
    expect(await readSources(install.config)).toMatchObject({
      logs: [
        {
          target: 'orders',
          log: { rows: 5 },
          archived: { rows: 0, files: 0 },
          replayableFrom: await day(30),
          isWhole: true,
          baseline: null,
        },
        {
          target: 'items',
          log: { rows: 0, firstId: null, firstRecordedAt: null },
          replayableFrom: null,
          isWhole: true,
        },
      ],
      problems: [],
    });
    await move(15);
    const { logs } = await readSources(install.config, { check: true });
    expect(logs[0]).toMatchObject({
      log: { rows: 1, firstRecordedAt: await day(10) },
      archived: {
        rows: 4,
        files: 2,
        unreadable: [],
        firstRecordedAt: await day(30),
        lastRecordedAt: await day(20),
      },
      replayableFrom: await day(30),
      isWhole: true,
    });
  });

  it('names a file that is missing, cut, or (with --check) changed, and what can still be replayed whole', async () => {
    await install.start();
    await order([1, 2], 30);
    await order([3, 4], 20);
    await order([5], 10);
    await install.wait();
    const { files, manifest } = (await move(15))[0]!;
    const bytes = readFileSync(files[0]!);
    writeFileSync(files[0]!, Buffer.concat([bytes.subarray(0, -4), Buffer.from('abcd')]));
    expect(await problems()).toEqual([]);
    expect(await problems({ check: true })).toEqual([
      expect.stringMatching(
        /^targets\.orders: 2 rows cannot be replayed: \S+\.copy\.gz cannot be read from line \d+ on \(Z_DATA_ERROR\) → Bring the file back/,
      ),
    ]);
    writeFileSync(files[0]!, bytes.subarray(0, 50));
    expect(await problems()).toEqual([
      expect.stringMatching(new RegExp(`has 50 bytes, and was written with ${bytes.length} `)),
    ]);
    writeFileSync(files[0]!, bytes);
    const elsewhere = join(folder, 'elsewhere');
    renameSync(join(folder, 'orders'), elsewhere);
    const [log] = (await readSources(install.config)).logs;
    expect(log).toMatchObject({
      isWhole: false,
      replayableFrom: await day(20),
      archived: { unreadable: { length: 2 } },
    });
    expect(
      await problems({ archives: [manifest!.replace(`${folder}/orders`, elsewhere)], check: true }),
    ).toEqual([]);
  });

  it('names files that no manifest lists (with --check), and the command that writes it again', async () => {
    await install.start();
    await order([1, 2, 3], 30);
    await install.wait();
    const { files, manifest } = (await move(15))[0]!;
    for (const spoil of [() => rmSync(manifest!), () => writeFileSync(manifest!, 'null')]) {
      spoil();
      expect(await problems()).toEqual([]);
      expect(await problems({ check: true })).toEqual([
        expect.stringContaining(
          `targets.orders: 2 files are in no manifest that can be read: ${files.join(', ')}`,
        ),
      ]);
      rmSync(manifest!, { force: true });
      const [, before] = /emend archive orders --before (\S+) --to/.exec(
        (await problems({ check: true }))[0]!,
      )!;
      await archive(install.config, { target: 'orders', before: before!, to: folder });
      expect(await problems({ check: true })).toEqual([]);
    }
  });

  it('warns of rows that are older than log.keepDays and in no file, with the command that moves them', async () => {
    await install.start();
    await order([1, 2], 30);
    await order([3], 10);
    await install.wait();
    expect(await problems({}, 100)).toEqual([]);
    const [problem] = await problems({}, 15);
    expect(problem).toMatch(/^targets\.orders: 2 rows are older than log\.keepDays \(15\), and in no file/);
    const [, before] = /emend archive orders --before (\S+) --to <folder>$/.exec(problem!)!;
    await archive(install.config, { target: 'orders', before: before!, to: folder });
    expect(await problems({}, 15)).toEqual([]);
  });

  it('names raw input of backfills that cannot be read any more, or (with --check) is another', async () => {
    const checksum = createHash('sha256').update('a,b').digest('hex');
    await install.source.query(
      `select corrections.open_backfill('b', '{orders}', 'why', 'v1', origin => $1::jsonb)`,
      [JSON.stringify({ raw_input: [{ file: 'exports/09.csv', checksum }] })],
    );
    mkdirSync(join(folder, 'exports'));
    writeFileSync(join(folder, 'exports/09.csv'), 'a,b');
    const inputs = [folder];
    expect(await problems({ inputs, check: true })).toEqual([]);
    writeFileSync(join(folder, 'exports/09.csv'), 'a,c');
    expect(await problems({ inputs })).toEqual([]);
    expect(await problems({ inputs, check: true })).toEqual([
      expect.stringContaining('backfill b: its raw input exports/09.csv is not what it was'),
    ]);
    rmSync(join(folder, 'exports/09.csv'));
    expect(await problems({ inputs })).toEqual([
      expect.stringContaining('backfill b: its raw input exports/09.csv is not there'),
    ]);
  });

  it('raw input that was not there when a backfill was opened is said to be so, and of an abandoned one it does not count', async () => {
    await install.source.query(
      `select corrections.open_backfill('b', '{orders}', 'why', 'v1', origin => $1::jsonb)`,
      [JSON.stringify({ raw_input: [{ file: 'late.csv', checksum: null }] })],
    );
    writeFileSync(join(folder, 'late.csv'), 'a,b');
    const inputs = [folder];
    expect(await problems({ inputs, check: true })).toEqual([
      expect.stringContaining(
        'backfill b: its raw input late.csv could not be read when the backfill was opened: whether',
      ),
    ]);
    rmSync(join(folder, 'late.csv'));
    expect(await problems({ inputs })).toHaveLength(1);
    await install.start();
    await abandon(install.config, 'b', { reason: 'not after all', timeoutMs: 20_000 });
    expect(await problems({ inputs })).toEqual([]);
  });

  it('counts what was adopted with the table as the beginning of every fold', async () => {
    const adopted = await createInstall('sources adopted', {
      ddl: `create table public.orders (id integer primary key, amount integer)`,
      targets: { orders: targets.orders },
    });
    await adopted.store.query(
      `create table public.items (id integer primary key, amount integer); insert into public.items values (1, 1), (2, 2)`,
    );
    const { resolveConfig } = await import('../../src/config/config.ts');
    const { source, store, queue } = adopted.config;
    const config = resolveConfig(
      { source: { url: source.url }, store, queue: { redis: queue.redis! }, targets },
      {},
    );
    await migrate({ config, print: false, adopt: ['items'] });
    const { logs } = await readSources(config);
    expect(logs[1]).toMatchObject({ target: 'items', baseline: { rows: 2 }, isWhole: true });
    expect(logs[1]!.replayableFrom).toBe(logs[1]!.baseline!.adoptedAt);
  });

  it('ends with 1 on the command line when something cannot be replayed, and says it in words', async () => {
    const cli = createCli(
      `import { defineConfig, facts } from 'emend'
       export default defineConfig({ log: { keepDays: 15 }, targets: { orders: facts('public.orders', { key: ['id'] }), items: facts('public.items', { key: ['id'] }) } })`,
      {
        SOURCE_URL: install.config.source.url,
        STORE_URL: install.config.store.url,
        REDIS_URL: install.config.queue.redis!,
      },
    );
    await install.start();
    await order([1, 2], 30);
    await install.wait();
    const before = await cli.run(['sources']);
    expect(before).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('! targets.orders: 2 rows are older than log.keepDays (15)'),
    });
    expect(await cli.run(['archive', '--before', '2026-01-01', '--to', folder])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('either a target, or --all'),
    });
    const moved = await cli.run([
      'archive',
      '--all',
      '--before',
      (await day(15)).slice(0, 10),
      '--to',
      folder,
    ]);
    expect(moved).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('orders: 2 rows moved to 1 file ('),
    });
    expect(await cli.run(['sources', '--check'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Everything can be replayed.'),
    });
    expect(await cli.run(['verify'])).toMatchObject({ code: 0 });
    const manifest = join(folder, 'orders', 'manifest.json');
    const restored = await cli.run(['archive', 'restore', manifest]);
    expect(restored).toMatchObject({ code: 0, stdout: expect.stringContaining('orders: 2 rows of ') });
    expect(await cli.run(['archive', 'restore', join(folder, 'manifest.json')])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('(ENOENT)'),
    });
  }, 180_000);
});
