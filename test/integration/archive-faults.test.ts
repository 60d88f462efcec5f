import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { restoreArchive } from '../../src/pipeline/restore-archive.ts';
import { sweepNow } from '../../src/pipeline/sweep-now.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import {
  createFolder,
  ddl,
  diverged,
  found,
  move,
  order,
  price,
  readLog,
  targets,
  well,
} from '../support/archive.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';

const config = `
import { defineConfig, facts, timeline } from 'emend'
export default defineConfig({ targets: {
  orders: facts('public.orders', { key: ['id'] }),
  prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
} })`;

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

      const args = [
        'archive',
        'orders',
        '--before',
        new Date().toISOString(),
        '--to',
        folder,
        '--rows-per-file',
        '100',
      ];
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
