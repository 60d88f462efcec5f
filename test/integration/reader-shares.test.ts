import { describe, expect, it, onTestFinished, test } from 'vitest';
import { planPublication } from '../../src/capture/publication.ts';
import type { ResolvedConfig } from '../../src/config/resolved-config.ts';
import { createLogger } from '../../src/observe/logger.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { startPipeline } from '../../src/pipeline/pipeline.ts';
import type { Pipeline, PipelineOptions } from '../../src/pipeline/pipeline.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { expectModel } from '../faults/compare.ts';
import { configTextOf, ddl, targets } from '../faults/targets.ts';
import { runWriter } from '../faults/writer.ts';
import { accepted, columnOf, createSource, startReader, streaming } from '../support/capture-harness.ts';
import type { Reader, Source } from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually, holds } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';
import { transactionsOf } from '../support/transactions.ts';

const log = createLogger({ level: process.env['EMEND_LOG_LEVEL'] ?? 'silent' });

describe('the publications of several readers', () => {
  const shares = [1, 2, 3].map((number) => ({ number, of: 3 }));

  async function openShares(source: Source): Promise<Reader[]> {
    const names = shares.map(({ number }) => `${source.slot}_${number}`);
    for (const [place, share] of shares.entries()) {
      const plan = { publication: names[place]!, targets: ['prices'], share };
      for (const { sql } of await planPublication(source.db, plan)) await source.db.query(sql);
      expect(await planPublication(source.db, plan)).toEqual([]);
    }
    const readers = names.map((name) => startReader(source, { slot: name, publication: name }));
    for (const reader of readers) await streaming(reader);
    return readers;
  }

  test('send each transaction to one reader, whole, savepoints and other writers or not', async () => {
    const source = await createSource((await createDatabases('shares')).sourceUrl);
    const readers = await openShares(source);
    const other = await source.connect();
    onTestFinished(() => other.end());
    const ids: string[] = [];
    for (let transaction = 0; transaction < 40; transaction += 1) {
      // one savepoint each: all that write like this have numbers of one parity
      await source.db.query('begin');
      ids.push(...(await source.insert(3)));
      await source.db.query('savepoint a_part');
      ids.push(...(await source.insert(2)));
      await source.db.query('commit');
      await other.query(`select pg_current_xact_id()`);
      ids.push(...(await source.insert(1)));
    }
    const byNumber = (one: string, next: string): number => Number(one) - Number(next);
    await eventually(() =>
      expect(readers.flatMap((reader) => reader.ids()).toSorted(byNumber)).toEqual(ids.toSorted(byNumber)),
    );
    const transactions = readers.map(({ batches }) => batches.flatMap((batch) => columnOf(batch, '_xid')));
    for (const [place, of] of transactions.entries()) {
      expect(of.length, `rows of share ${place + 1}`).toBeGreaterThan(0);
      for (const [at, others] of transactions.entries())
        if (at !== place) expect(others.filter((xid) => of.includes(xid))).toEqual([]);
    }
  });

  test('a filter of another number of readers does not stop a reader that runs, and comes into force at once', async () => {
    const source = await createSource((await createDatabases('shares refiltered')).sourceUrl);
    const reader = startReader(source);
    await streaming(reader);
    await accepted(reader, await source.insert(2));
    const plan = { publication: source.publication, targets: ['prices'], share: { number: 2, of: 2 } };
    for (const { sql } of await planPublication(source.db, plan)) await source.db.query(sql);
    const written: { id: string; mine: boolean }[] = [];
    for (let row = 0; row < 30; row += 1) {
      const [id] = await source.insert(1);
      const { rows } = await source.db.query<{ mine: boolean }>(
        `select (hash_record_extended(row(_xid), 0) & 255) % 2 = 1 as mine from corrections.prices where _id = $1`,
        [id],
      );
      written.push({ id: id!, mine: rows[0]!.mine });
    }
    const mine = written.filter((row) => row.mine).map(({ id }) => id);
    await accepted(reader, mine);
    await reader.capture.stop();
    const again = startReader(source);
    await streaming(again);
    await source.db.query('begin');
    await source.db.query('commit');
    expect(reader.ids().slice(2)).toEqual(mine);
    // and one of another condition is not taken for it
    await again.capture.stop();
    await source.db.query(`alter publication "${source.publication}" drop table corrections.prices`);
    await source.db.query(
      `alter publication "${source.publication}" add table corrections.prices where (_backfill is null and price > 3)`,
    );
    await expect(startReader(source).running).rejects.toMatchObject({ code: 'publication_missing' });
  });

  test('a transaction that writes while the filter changes is waited for', async () => {
    const source = await createSource((await createDatabases('shares waited')).sourceUrl);
    const [writer, second] = [await source.connect(), await source.connect()];
    onTestFinished(async () => void (await Promise.all([writer.end(), second.end()])));
    await writer.query('begin');
    await writer.query(
      `insert into corrections.prices (product_id, valid_from, valid_to) values ('A', '2026-01-01', '2026-02-01')`,
    );
    const plan = { publication: source.publication, targets: ['prices'], share: { number: 1, of: 2 } };
    const statements = await planPublication(source.db, plan);
    const change = async (): Promise<void> => {
      for (const { sql } of statements) await source.db.query(sql);
    };
    let isDone = false;
    const changing = change().then(() => (isDone = true));
    // longer than a lock is waited for at a time, and no other writer waits behind it for longer than that
    const other = second.query(
      `insert into corrections.prices (product_id, valid_from, valid_to) values ('B', '2026-01-01', '2026-02-01')`,
    );
    await holds(() => expect(isDone).toBe(false), { forMs: 1_500 });
    await writer.query('commit');
    await Promise.all([changing, other]);
    expect(await planPublication(source.db, plan)).toEqual([]);
  });
});

function withReaders({ config }: Install, readers: number): ResolvedConfig {
  return { ...config, capture: { ...config.capture, readers } };
}

async function run(options: Omit<PipelineOptions, 'log'>): Promise<Pipeline> {
  const pipeline = await startPipeline({ ...options, log });
  pipeline.ended.catch(() => undefined);
  onTestFinished(() => pipeline.stop());
  return pipeline;
}

async function readerStates(config: ResolvedConfig): Promise<string[]> {
  const { readers } = await readStatus(config);
  return readers.map(({ slot }) => slot?.state ?? 'missing');
}

async function problemsOf(config: ResolvedConfig): Promise<string[]> {
  const { problems } = await readStatus(config);
  return problems
    .filter(({ path }) => /^(slot|publication)/.test(path))
    .map(({ path, problem }) => `${path} ${problem}`);
}

async function slotsOf({ source }: Install): Promise<string[]> {
  const { rows } = await source.query<{ name: string }>(
    `select slot_name as name from pg_replication_slots where database = current_database()
     union all select pubname from pg_publication
     order by name`,
  );
  return rows.map(({ name }) => name);
}

it('readers go from one to two and back under writes, and every transaction is merged once, and whole', async () => {
  const install = await createInstall('shares changed', { ddl, targets });
  const [one, two] = [withReaders(install, 1), withReaders(install, 2)];
  const [name] = await slotsOf(install);
  await run({ config: one, roles: ['reader', 'worker'] });
  let isWriting = true;
  const writing = Promise.all(
    [1, 2, 3].map(async (seed) => {
      const committed: bigint[] = [];
      for (let round = 0; isWriting; round += 1) {
        const transactions = transactionsOf(seed * 1_000 + round, 6);
        committed.push(...(await runWriter(one.source.url, 400, transactions, performance.now() + 60_000)));
      }
      return committed;
    }),
  );
  const merged = async (rows: number): Promise<void> => {
    await eventually(async () => {
      const { targets: all } = await readStatus(one);
      expect(all.reduce((sum, each) => sum + each.merged, 0)).toBeGreaterThan(rows);
    });
  };
  await merged(300);

  await migrate({ config: two, print: false });
  expect(await slotsOf(install)).toEqual([name, name, `${name}_2`, `${name}_2`]);
  expect(await problemsOf(two)).toEqual(['slot of share 2 idle: no reader is connected']);
  await merged(1_000);
  const second = await run({ config: two, roles: ['reader'], share: 2 });
  await eventually(async () => expect(await readerStates(two)).toEqual(['reading', 'reading']));
  expect(await problemsOf(two)).toEqual([]);
  await merged(3_000);

  await expect(migrate({ config: one, print: false })).rejects.toMatchObject({
    code: 'server_unsuitable',
    problems: [
      { path: 'capture.readers', problem: expect.stringContaining(`${name}_2 is to go, and is being read`) },
    ],
  });
  expect(await problemsOf(one)).toContainEqual(expect.stringMatching(/^slot surplus: emend_\w+_2 is of/));
  await second.stop();
  await merged(3_500);
  await migrate({ config: one, print: false });
  expect(await slotsOf(install)).toEqual([name, name]);
  expect((await migrate({ config: one, print: false })).statements).toEqual([]);
  await merged(4_500);

  isWriting = false;
  const committed = (await writing).flat();
  await install.wait();
  await expectModel({ ...install, atomicRows: 1_000, committed, backfills: new Map() });
});

it('a share whose reader dies is taken over by a reader of all shares, and the stream brings what is written', async () => {
  const install = await createInstall('shares taken', { ddl, targets });
  const two = withReaders(install, 2);
  await migrate({ config: two, print: false });
  await run({ config: two, roles: ['worker'] });
  const first = await run({ config: two, roles: ['reader'], share: 1 });
  await eventually(async () => expect(await readerStates(two)).toEqual(['reading', 'idle']));
  await run({ config: two, roles: ['reader'] });
  await eventually(async () => expect(await readerStates(two)).toEqual(['reading', 'reading']));
  await first.stop();
  await eventually(async () => expect(await readerStates(two)).toEqual(['reading', 'reading']));
  // what the sweep was asked for at the start is answered
  await eventually(async () => {
    const { rows } = await install.store.query(
      `select coalesce(answered_at >= asked_at, false) as answered from emend.sweep_round`,
    );
    expect(rows).toEqual([{ answered: 't' }]);
  });
  const swept = async (): Promise<unknown> =>
    (await install.store.query(`select last_enqueued_at::text as at from emend.sweep_round`)).rows;
  const before = await swept();
  const transactions = transactionsOf(7, 20);
  const committed = await runWriter(two.source.url, 100, transactions, performance.now() + 60_000);
  await install.wait();
  expect(await swept()).toEqual(before);
  const { rows } = await install.source.query<{ share: string }>(
    `select distinct (hash_record_extended(row(_xid), 0) & 255) % 2 as share from corrections.f order by 1`,
  );
  expect(rows).toEqual([{ share: '0' }, { share: '1' }]);
  await expectModel({ ...install, atomicRows: 1_000, committed, backfills: new Map() });
});

it('the command line reads one share, names each in its status, and refuses one that is not there', async () => {
  const databases = await createDatabases('shares cli');
  await query(databases.storeUrl, ddl);
  const cli = createCli(configTextOf(2), {
    SOURCE_URL: databases.sourceUrl,
    STORE_URL: databases.storeUrl,
    REDIS_URL: databases.redisUrl,
  });
  const { install } = await cli.json<{ install: string }>(['migrate']);
  const reader = cli.start(['reader', '--share', '2']);
  await reader.said('reading the source');
  const { code, stdout } = await cli.run(['status']);
  expect(code).toBe(1);
  expect(stdout).toMatch(new RegExp(`slot +share 1 of 2, emend_${install}, idle, confirmed`));
  expect(stdout).toMatch(
    new RegExp(`slot +share 2 of 2, emend_${install}_2, reading from 127\\.0\\.0\\.1:\\d+, confirmed`),
  );
  expect(stdout).toContain('! slot of share 1: idle: no reader is connected');
  expect(stdout).not.toContain('! slot of share 2');
  expect(await cli.run(['reader', '--share', '3'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('there is no share 3: capture.readers is 2'),
  });
});

it('a share that is not in the configuration is refused, and one that was not migrated stops the reader', async () => {
  const install = await createInstall('shares refused', { ddl, targets });
  await expect(run({ config: install.config, roles: ['reader'], share: 2 })).rejects.toMatchObject({
    code: 'bad_arguments',
    message: 'there is no share 2: capture.readers is 1',
  });
  const reader = await run({ config: withReaders(install, 2), roles: ['reader'] });
  await expect(reader.ended).rejects.toMatchObject({ code: 'publication_missing' });
});
