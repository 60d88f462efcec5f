import { once } from 'node:events';
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import pg from 'pg';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { archive } from '../../src/pipeline/archive.ts';
import type { ArchiveRequest } from '../../src/pipeline/archive.ts';
import { restoreArchive } from '../../src/pipeline/restore-archive.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { sweepNow } from '../../src/pipeline/sweep-now.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { createFolder, readLog } from '../support/archive.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';
import { createSweep } from '../support/sweep.ts';

const ddl = `
  create table public.orders (id integer primary key, amount integer not null, note text, check (amount < 1000));
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric(10, 2))`;
const { targets } = defineConfig({
  targets: {
    orders: facts('public.orders', { key: ['id'] }),
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
  },
});
const config = `
import { defineConfig, facts, timeline } from 'emend'
export default defineConfig({ targets: {
  orders: facts('public.orders', { key: ['id'] }),
  prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
} })`;

/** In the form in which tabs, line ends, backslashes and \N are hardest. */
const notes = ['a\tb', 'line\nend\r', '\\N', '\\', '', null, 'żółć 𝄞', '\\t'];

const soon = () => new Date().toISOString();

async function order(install: Install, from: number, to: number): Promise<void> {
  await install.source.query(
    `insert into corrections.orders (id, amount, note)
     select i, i % 10, ($3::text[])[1 + i % cardinality($3::text[])] from generate_series($1::integer, $2::integer) as i`,
    [from, to, notes],
  );
}

async function price(install: Install, from: string, to: string, amount: string): Promise<string> {
  const { rows } = await install.source.query<{ id: string }>(
    `insert into corrections.prices (product, valid_from, valid_to, price) values ('A', $1, $2, $3) returning _id as id`,
    [from, to, amount],
  );
  return rows[0]!.id;
}

function move(install: Install, to: string, request: Partial<ArchiveRequest> = {}) {
  return archive(install.config, { target: null, before: soon(), to, ...request });
}

const found = async (install: Install, archives: string[] = []) =>
  (await verify(install.config, { archives })).map((each) => ({ ...each.found }));
const well = [{}, {}];

async function untilIn({ store }: Install, backfill: string, state: string): Promise<void> {
  await eventually(async () => {
    const { rows } = await store.query(`select state, problem from emend.backfill where name = $1`, [
      backfill,
    ]);
    expect(rows).toEqual([{ state, problem: null }]);
  });
}

async function diverged({ store }: Install): Promise<unknown[]> {
  return (await store.query(`select * from emend.diverged`)).rows;
}

describe('rows that were moved to files', () => {
  let install: Install;
  let folder: string;
  beforeEach(async () => {
    install = await createInstall('archive', { ddl, targets });
    folder = createFolder();
  });

  it('are neither lost nor missing for verify, sweep, wait and status, after a restart of everything too', async () => {
    const first = await install.start();
    await order(install, 1, 500);
    await price(install, '2026-01-01', '2026-12-01', '1.00');
    await price(install, '2026-02-01', '2026-03-01', '2.00');
    await install.wait();
    const moved = await move(install, folder, { rowsPerFile: 200 });
    expect(moved).toMatchObject([
      { target: 'orders', rows: 500, kept: 0, files: { length: 3 } },
      { target: 'prices', rows: 2, kept: 0, files: { length: 1 } },
    ]);
    expect(await readLog(install, 'orders')).toEqual([]);
    expect(await found(install)).toEqual(well);
    await first.stop();

    await install.start();
    await sweepNow({ config: install.config, all: true, timeoutMs: 20_000 });
    await order(install, 400, 600);
    await waitUntilMerged({ config: install.config, timeoutMs: 20_000 });
    expect(await diverged(install)).toEqual([]);
    expect(await found(install)).toEqual(well);
    expect((await readStatus(install.config)).problems).toEqual([]);
    const { rows } = await install.store.query(`select count(*) as orders from public.orders`);
    expect(rows).toEqual([{ orders: '600' }]);
  });

  it('are found by the damage they explain: verify compares the store with log and files together', async () => {
    await install.start();
    await order(install, 1, 20);
    await install.wait();
    await move(install, folder);
    await install.store.query(`update public.orders set note = 'changed' where id = 3`);
    await install.store.query(`delete from public.orders where id = 4`);
    expect(await found(install)).toEqual([{ changed: 1, missing: 1 }, {}]);
    const [one] = await verify(install.config, { target: 'orders', key: ['4'] });
    expect(one).toMatchObject({ found: { missing: 1 }, corrections: 1 });
    await verify(install.config, { target: 'orders', repair: true });
    expect(await found(install)).toEqual(well);
  });

  it('go back into the log as they were, to the letter, and their record stays', async () => {
    await install.start();
    await order(install, 1, 30);
    await price(install, '2026-01-01', '2026-12-01', '1.00');
    await install.wait();
    const before = [await readLog(install, 'orders'), await readLog(install, 'prices')];
    const manifests = (await move(install, folder, { rowsPerFile: 20 })).map(({ manifest }) => manifest!);
    expect(await readLog(install, 'orders')).toEqual([]);
    expect(await restoreArchive(install.config, manifests)).toMatchObject({
      files: { length: 3 },
      lacking: 0,
    });
    expect([await readLog(install, 'orders'), await readLog(install, 'prices')]).toEqual(before);
    expect(await found(install)).toEqual(well);
    // run again, it has nothing to do
    expect((await restoreArchive(install.config, manifests)).files).toEqual([]);
    // and they can be moved once more, to the same place
    await move(install, folder, { rowsPerFile: 20 });
    expect(await found(install)).toEqual(well);
    const { rows } = await install.source.query(
      `select count(*) as files, count(restored_at) as restored from corrections._archive`,
    );
    expect(rows).toEqual([{ files: '6', restored: '3' }]);
  });

  it('have the default of a column that came after them, as rows of the log have', async () => {
    await install.start();
    await order(install, 1, 3);
    await install.wait();
    await move(install, folder);
    await install.store.query(`alter table public.orders add column currency text not null default 'EUR'`);
    const { migrate } = await import('../../src/pipeline/migrate.ts');
    await migrate({ config: install.config, print: false });
    expect(await found(install)).toEqual(well);
    await restoreArchive(install.config, [join(folder, 'orders', 'manifest.json')]);
    expect((await install.source.query(`select distinct currency from corrections.orders`)).rows).toEqual([
      { currency: 'EUR' },
    ]);
    expect(await found(install)).toEqual(well);
  });

  it('can be taken back one by one', async () => {
    await install.start();
    await price(install, '2026-01-01', '2026-12-01', '1.00');
    const id = await price(install, '2026-02-01', '2026-03-01', '2.00');
    await install.wait();
    await move(install, folder);
    await undo({ config: install.config, target: 'prices', id, reason: 'a test' });
    const { rows } = await install.store.query(`select price from public.prices`);
    expect(rows).toEqual([{ price: '1.00' }]);
    expect(await found(install)).toEqual(well);
  });

  it('that a store lacks which was put back to an older state, are named, and come back by archive restore', async () => {
    const first = await install.start();
    await order(install, 1, 10);
    await install.wait();
    await first.stop();
    const tables = ['public.orders', 'emend.ledger_recent', 'emend.merge', 'emend.archive', 'emend.sweep'];
    const second = await install.start();
    for (const table of tables)
      await install.store.query(`create table public.copy_of_${table.replace('.', '_')} as table ${table}`);
    await order(install, 11, 14);
    await install.wait();
    await second.stop();
    await move(install, folder);
    for (const table of tables)
      await install.store.query(
        `delete from ${table}; insert into ${table} select * from public.copy_of_${table.replace('.', '_')}`,
      );

    await install.start();
    await eventually(async () =>
      expect(
        (await readStatus(install.config)).problems.map(({ path, problem }) => `${path}: ${problem}`),
      ).toEqual([
        expect.stringMatching(/^targets\.orders: 4 rows of \S+ had an effect that the store has lost/),
      ]),
    );
    const restored = await restoreArchive(install.config, [join(folder, 'orders', 'manifest.json')]);
    expect(restored.lacking).toBe(4);
    await eventually(async () => {
      const { rows } = await install.store.query(`select count(*) as orders from public.orders`);
      expect(rows).toEqual([{ orders: '14' }]);
    });
    expect((await readStatus(install.config)).problems).toEqual([]);
    expect(await found(install)).toEqual(well);
  });
});

describe('archive', () => {
  let install: Install;
  let folder: string;
  beforeEach(async () => {
    install = await createInstall('archive what', { ddl, targets });
    folder = createFolder();
  });

  it('leaves what is not merged, set aside, diverged, of an open backfill, or newer', async () => {
    const { source, store } = install;
    await source.query(
      `select corrections.open_backfill('open', '{orders}', 'why', 'v1'), corrections.open_backfill('done', '{orders}', 'why', 'v1')`,
    );
    await install.start();
    await order(install, 1, 5);
    // no cast of the log refuses it, the table does
    await store.query(`alter table public.orders add constraint not_seven check (id <> 7)`);
    await order(install, 7, 7);
    await install.wait();
    await source.query(
      `insert into corrections.orders (id, amount, note, _backfill) values (100, 1, 'n', 'open'), (101, 1, 'n', 'done'), (102, 1, 'n', 'done')`,
    );
    await source.query(`select corrections.seal_backfill('done')`);
    await source.query(`select corrections.promote_backfill('done')`);
    await untilIn(install, 'done', 'promoted');
    await store.query(
      `insert into emend.diverged (_id, _nonce, target, kind) select _id, _nonce, target, 'lost' from emend.ledger order by _id limit 1`,
    );
    const before = soon();
    await order(install, 200, 202);
    await install.wait();
    expect(await move(install, folder, { target: 'orders', before, dryRun: true })).toMatchObject([
      { rows: 6, kept: 3, files: [] },
    ]);
    expect(readdirSync(folder)).toEqual([]);
    expect(await move(install, folder, { target: 'orders', before })).toMatchObject([{ rows: 6, kept: 3 }]);
    const { rows } = await source.query<{ id: string }>(`select id from corrections.orders order by _id`);
    expect(rows.map(({ id }) => Number(id))).toEqual([1, 7, 100, 200, 201, 202]);
    await store.query(`delete from emend.diverged`);
    expect(await found(install)).toEqual(well);

    // rows of a backfill that was closed go back in, though nothing else may
    await restoreArchive(install.config, [join(folder, 'orders', 'manifest.json')]);
    expect(await readLog(install, 'orders')).toHaveLength(12);
    await expect(
      source.query(`insert into corrections.orders (id, amount, _backfill) values (103, 1, 'done')`),
    ).rejects.toThrow('was closed');
    // a revert needs no log
    await move(install, folder, { target: 'orders', before });
    await source.query(`select corrections.revert_backfill('done', 'why')`);
    await untilIn(install, 'done', 'reverted');
    expect(await found(install)).toEqual(well);
  });

  it('moves what plain Postgres can read back, with what its manifest says', async () => {
    await install.start();
    await order(install, 1, 9);
    await install.wait();
    const before = await readLog(install, 'orders');
    const manifest = (await move(install, folder, { target: 'orders' }))[0]!.manifest!;
    const { files, ...head } = JSON.parse(readFileSync(manifest, 'utf8')) as {
      files: Record<string, unknown>[];
    };
    expect(head).toMatchObject({
      format: 'emend archive 1',
      postgres: '15 or later',
      target: 'orders',
      install: expect.stringMatching(/^[0-9a-f]{8}$/),
    });
    expect(files).toMatchObject([
      {
        rows: 9,
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        columns: expect.arrayContaining([{ name: 'note', type: 'text' }]),
      },
    ]);
    const text = gunzipSync(readFileSync(join(dirname(manifest), files[0]!['file'] as string))).toString();
    const client = new pg.Client({ connectionString: install.config.source.url });
    await client.connect();
    onTestFinished(() => client.end());
    const { from } = await import('pg-copy-streams');
    await client.query(`create temp table again (like corrections.orders)`);
    const copy = client.query(
      from(
        `copy again (${text.split('\n')[0]!.split('\t').join(', ')}) from stdin with (format text, header match)`,
      ),
    );
    copy.end(text);
    await once(copy, 'finish');
    const { rows } = await client.query<{ row: string }>(`select a::text as row from again a order by _id`);
    expect(rows.map(({ row }) => row)).toEqual(before);
  });

  it.each([
    ['a time to come', { before: '2999-01-01' }, /2999-01-01 is not past/],
    ['no time', { before: 'yesterdayish' }, /yesterdayish is no time/],
    ['an unknown target', { target: 'order' }, /there is no target order/],
    ['a folder that cannot be made', { to: '/dev/null/there' }, /cannot be made/],
  ])('refuses %s, and moves nothing', async (_, request, message) => {
    await install.start();
    await order(install, 1, 2);
    await install.wait();
    await expect(move(install, folder, request)).rejects.toThrow(message);
    expect(await readLog(install, 'orders')).toHaveLength(2);
  });

  it('refuses the folder of another install, and a second run beside the first', async () => {
    await install.start();
    await order(install, 1, 2);
    await install.wait();
    mkdirSync(join(folder, 'orders'));
    writeFileSync(
      join(folder, 'orders', 'manifest.json'),
      JSON.stringify({ format: 'emend archive 1', install: 'ffffffff', target: 'orders', files: [] }),
    );
    await expect(move(install, folder)).rejects.toThrow('of install ffffffff');
    mkdirSync(join(folder, 'prices'));
    renameSync(join(folder, 'orders', 'manifest.json'), join(folder, 'prices', 'manifest.json'));
    // nor does it move what comes before it
    await expect(move(install, folder)).rejects.toThrow('of install ffffffff');
    expect(await readLog(install, 'orders')).toHaveLength(2);
    const other = await install.source.connect();
    await other.query(`select pg_advisory_lock(hashtextextended('emend archive orders', 0))`);
    await expect(move(install, createFolder())).rejects.toMatchObject({ code: 'archive_busy' });
    other.release(true);
    expect(await readLog(install, 'orders')).toHaveLength(2);
  });

  it('is the only way out of a log: nobody deletes without a record, and no writer writes one', async () => {
    const { source } = install;
    await install.start();
    await order(install, 1, 4);
    await install.wait();
    const record = `insert into corrections._archive (target, ids, rows, nonces, digest, first_recorded_at, last_recorded_at, host, file, bytes, sha256, before)
      select 'orders', int8multirange(int8range(min(_id), min(_id), '[]')), 1, 1, 1, now(), now(), 'h', 'f', 1, repeat('0', 64), now() from corrections.orders`;
    const all = `delete from corrections.orders`;
    await expect(source.query(all)).rejects.toThrow('append-only');
    // the owner, with a record of one row: no other goes with it
    await expect(source.query(`${record}; ${all}`)).rejects.toThrow('append-only');
    await expect(source.query(`${record}; truncate corrections.orders`)).rejects.toThrow('append-only');
    await source.query(record);
    await expect(
      source.query(`delete from corrections.orders where _id = (select min(_id) from corrections.orders)`),
    ).rejects.toThrow('append-only');
    await expect(source.query(`delete from corrections._archive`)).rejects.toThrow('append-only');
    const { rows } = await source.query<{ id: string }>(`select id from corrections._install`);
    for (const sql of [record, all, `update corrections._archive set restored_at = now()`]) {
      for (const role of ['writer', 'reader'])
        await expect(
          source.query(`begin; set local role emend_${role}_${rows[0]!.id}; ${sql}`),
        ).rejects.toMatchObject({ code: '42501' });
      await source.query('rollback');
    }
    expect(await readLog(install, 'orders')).toHaveLength(4);
  });
});

describe('a file that is damaged', () => {
  let install: Install;
  let folder: string;
  let file: string;
  beforeEach(async () => {
    install = await createInstall('archive damaged', { ddl, targets });
    folder = createFolder();
    await install.start();
    await order(install, 1, 2_000);
    await order(install, 1, 3);
    await install.wait();
    file = (await move(install, folder, { target: 'orders' }))[0]!.files[0]!;
  });

  const damages: [string, (bytes: Buffer) => Buffer, RegExp][] = [
    ['cut', (bytes) => bytes.subarray(0, bytes.length / 2), /cannot be read from line \d+ on/],
    ['changed in the middle', (bytes) => Buffer.concat([bytes.subarray(0, 2_000), Buffer.alloc(40), bytes.subarray(2_040)]), /cannot be read from line \d+ on/],
    ['packed again with a line less', (bytes) => gzipSync(gunzipSync(bytes).toString().split('\n').toSpliced(5, 1).join('\n')), /is not the file that was archived/],
    ['packed again with a field less', (bytes) => gzipSync(gunzipSync(bytes).toString().replace(/^((?:.*\n){4})[^\t]*\t/, '$1')), /in line 5 than in its header/],
  ]; // prettier-ignore

  it.each(damages)('is refused by restore with its name and the place: %s', async (_, damage, message) => {
    const bytes = readFileSync(file);
    writeFileSync(file, damage(bytes));
    const manifest = join(dirname(file), 'manifest.json');
    await expect(restoreArchive(install.config, [manifest])).rejects.toThrow(message);
    await expect(restoreArchive(install.config, [manifest])).rejects.toThrow(file);
    expect(await readLog(install, 'orders')).toEqual([]);
    const [verification] = await verify(install.config, { target: 'orders' });
    expect(verification!.found).toEqual({ archive_unreadable: 1 });
    expect(verification!.unread).toMatchObject([
      { file, rows: 2_003, problem: expect.stringMatching(message) },
    ]);
    writeFileSync(file, bytes);
    expect(await found(install)).toEqual(well);
  });

  it('or missing is named by verify, which goes on to compare what was written since, and finds a copy elsewhere', async () => {
    await order(install, 2_001, 2_005);
    await install.wait();
    const other = createFolder();
    for (const each of readdirSync(dirname(file))) copyFileSync(join(dirname(file), each), join(other, each));
    rmSync(file);
    await install.store.query(`update public.orders set note = 'changed' where id = 2002`);
    const [verification] = await verify(install.config, { target: 'orders' });
    expect(verification!.found).toEqual({ archive_unreadable: 1, changed: 1 });
    await expect(verify(install.config, { target: 'orders', repair: true })).rejects.toMatchObject({
      code: 'archive_unreadable',
      message: expect.stringContaining(file) as string,
    });
    await verify(install.config, {
      target: 'orders',
      repair: true,
      archives: [join(other, 'manifest.json')],
    });
    expect(await found(install, [join(other, 'manifest.json')])).toEqual(well);
  });
});

describe('archive that is killed with kill -9', () => {
  const steps: { at: string; where: 'source' | 'store'; table: string; when: string; left: number }[] = [
    { at: 'after its file is written, before the store knows it', where: 'store', table: 'emend.archive', when: 'true', left: 250 },
    { at: 'as it records the first file', where: 'source', table: 'corrections._archive', when: 'true', left: 250 },
    { at: 'as it records the blocks of the second file', where: 'source', table: 'corrections._archive_block', when: '(select count(distinct archive) = 2 from corrections._archive_block)', left: 150 },
    { at: 'after the rows of the second file are deleted, before the commit', where: 'source', table: 'corrections.orders', when: `tg_op = 'DELETE' and (select count(*) = 2 from corrections._archive)`, left: 150 },
  ]; // prettier-ignore

  it.each(steps)(
    '$at: each row is in the log or in a recorded file, and the next run goes on',
    async ({ where, table, when, left }) => {
      const install = await createInstall('archive kill', { ddl, targets });
      const folder = createFolder();
      const cli = createCli(config, {
        SOURCE_URL: install.config.source.url,
        STORE_URL: install.config.store.url,
        REDIS_URL: install.config.queue.redis!,
      });
      await install.start();
      await order(install, 1, 250);
      await install.wait();
      // what a run before left behind
      mkdirSync(join(folder, 'orders'));
      for (const name of ['1-100.copy.gz.part', 'manifest.json.part'])
        writeFileSync(join(folder, 'orders', name), 'half');
      const held = install[where];
      const holder = await held.connect();
      onTestFinished(() => holder.release(true));
      await holder.query(`select pg_advisory_lock(42)`);
      const event = table === 'corrections.orders' ? 'delete' : 'insert';
      await held.query(`create function public.stop_here() returns trigger language plpgsql as
      $$ begin if ${when} then perform pg_advisory_xact_lock_shared(42); end if; return null; end $$`);
      await held.query(
        `create trigger zz_stop after ${event} on ${table} for each statement execute function public.stop_here()`,
      );

      const args = ['archive', 'orders', '--before', soon(), '--to', folder, '--rows-per-file', '100'];
      const run = cli.start(args);
      await eventually(
        async () => {
          const { rows } =
            await held.query(`select from pg_locks where locktype = 'advisory' and classid = 0 and objid = 42 and not granted
          and database = (select oid from pg_database where datname = current_database())`);
          if (rows.length === 0) throw new Error(`it did not come to ${table}: ${run.stderr()}`);
        },
        { timeoutMs: 30_000 },
      );
      run.process.kill('SIGKILL');
      await run.ended;
      await holder.query(`select pg_advisory_unlock_all()`);
      await held.query(`drop trigger zz_stop on ${table}`);
      // the server ends what the process began
      await eventually(async () => expect(await readLog(install, 'orders')).toHaveLength(left), {
        timeoutMs: 20_000,
      });
      expect(await found(install)).toEqual(well);
      expect(await diverged(install)).toEqual([]);

      const again = await eventually(() => cli.json<{ rows: number }[]>(args), { timeoutMs: 40_000 });
      expect(again).toMatchObject([{ rows: left }]);
      expect(await readLog(install, 'orders')).toEqual([]);
      expect(await found(install)).toEqual(well);
      const sweep = await cli.run(['sweep', '--all']);
      expect(sweep.code).toBe(0);
      expect(await diverged(install)).toEqual([]);
    },
    120_000,
  );
});

describe('archive while everything runs', () => {
  it('loses no row and names none as lost: writers, two workers, sweeps, verify, moved and put back', async () => {
    const install = await createInstall('archive live', { ddl, targets });
    const folder = createFolder();
    await install.start();
    await install.start('worker');
    const until = performance.now() + 12_000;
    const again = async (step: (round: number) => Promise<unknown>): Promise<void> => {
      for (let round = 0; performance.now() < until; round += 1) await step(round);
    };
    await Promise.all([
      again((round) => order(install, (round % 50) * 20, (round % 50) * 20 + 30)),
      again((round) => price(install, `2026-01-${1 + (round % 20)}`, '2026-02-01', String(round % 100))),
      again(async (round) => {
        const moved = await move(install, folder, { rowsPerFile: 300 });
        const manifests = moved.flatMap(({ manifest }) => (manifest === null ? [] : [manifest]));
        if (round % 3 === 2) await restoreArchive(install.config, manifests);
      }),
      again(() => sweepNow({ config: install.config, all: true, timeoutMs: 30_000 })),
      again(async () => expect(await found(install)).toEqual(well)),
    ]);
    // each sweep of all has put on the queue whatever was still there
    await waitUntilMerged({ config: install.config, timeoutMs: 90_000 });
    await sweepNow({ config: install.config, all: true, timeoutMs: 30_000 });
    expect(await found(install)).toEqual(well);
    expect(await diverged(install)).toEqual([]);
    // the last round may have put everything back
    await move(install, folder, { rowsPerFile: 300 });
    // each row once, in the log or in a file
    const { rows } = await install.source.query<{ logged: string; archived: string; merged: string }>(
      `select (select count(*) from corrections.orders) + (select count(*) from corrections.prices) as logged,
         (select sum(rows) from corrections._archive where restored_at is null) as archived`,
    );
    const merged = await install.store.query<{ rows: string }>(`select count(*) as rows from emend.ledger`);
    expect(Number(rows[0]!.logged) + Number(rows[0]!.archived)).toBe(Number(merged.rows[0]!.rows));
    expect(Number(rows[0]!.archived)).toBeGreaterThan(0);
  }, 120_000);
});

describe('a sweep of numbers', () => {
  it('still names a row that the source lost between rows that were archived', async () => {
    const install = await createInstall('archive lost', { ddl, targets });
    const pipeline = await install.start();
    await order(install, 1, 6);
    await install.wait();
    await pipeline.stop();
    await install.source.query(
      `alter table corrections.orders disable trigger user; delete from corrections.orders where id = 3`,
    );
    await install.source.query(`alter table corrections.orders enable trigger user`);
    expect(await move(install, createFolder())).toMatchObject([{ rows: 5 }, { rows: 0 }]);
    const sweep = await createSweep(install);
    await install.store.query(`update emend.sweep_round set asked_at = clock_timestamp(), asked_all = true`);
    await sweep.tick();
    const { rows } = await install.store.query(
      `select d.kind, o.id from emend.diverged d join public.orders o on o._version = d._id`,
    );
    expect(rows).toEqual([{ kind: 'lost', id: '3' }]);
    expect(await found(install)).toEqual([{ not_in_log: 1 }, {}]);
  });
});
