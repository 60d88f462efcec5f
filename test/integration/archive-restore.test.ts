import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import { archive } from '../../src/pipeline/archive.ts';
import { restoreArchive } from '../../src/pipeline/restore-archive.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { createFolder, readLog } from '../support/archive.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';

const ddl = `create table public.orders (id integer primary key, amount integer)`;
const { targets } = defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } });
const config = `
import { defineConfig, facts } from 'emend'
export default defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } })`;

describe('archive restore', () => {
  let install: Install;
  let folder: string;
  let files: readonly string[];
  let cli: Cli;
  const manifest = () => join(folder, 'orders', 'manifest.json');
  beforeEach(async () => {
    install = await createInstall('archive restore', { ddl, targets });
    folder = createFolder();
    const pipeline = await install.start();
    onTestFinished(() => pipeline.stop());
    await order(1, 50);
    await install.wait();
    files = (await move())[0]!.files;
    cli = createCli(config, {
      SOURCE_URL: install.config.source.url,
      STORE_URL: install.config.store.url,
      REDIS_URL: install.config.queue.redis!,
    });
  });

  const order = (from: number, to: number) =>
    install.source.query(
      `insert into corrections.orders (id, amount) select i, i from generate_series($1::integer, $2::integer) as i`,
      [from, to],
    );
  const move = () =>
    archive(install.config, {
      target: 'orders',
      before: new Date().toISOString(),
      to: folder,
      rowsPerFile: 20,
    });
  const found = async (archives: string[] = []) => ({
    ...(await verify(install.config, { archives }))[0]!.found,
  });

  const flip = (file: string): Buffer => {
    const bytes = readFileSync(file);
    writeFileSync(file, Buffer.from(bytes.map((byte, place) => (place === 40 ? byte ^ 1 : byte))));
    return bytes;
  };

  it('refuses before it puts anything back when the last of several files is damaged, and goes on without it', async () => {
    flip(files[2]!);
    for (const given of [manifest(), join(folder, 'orders'), folder]) {
      const refused = await cli.run(['archive', 'restore', given]);
      expect(refused).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`nothing was put back: ${files[2]!} `),
      });
      expect(await readLog(install, 'orders')).toEqual([]);
    }
    renameSync(files[2]!, join(createFolder(), 'damaged'));
    expect((await restoreArchive(install.config, [folder])).files).toHaveLength(2);
    expect(await readLog(install, 'orders')).toHaveLength(40);
  }, 60_000);

  it('names every damaged file, not only the first', async () => {
    for (const file of files.slice(1)) flip(file);
    await expect(restoreArchive(install.config, [folder])).rejects.toMatchObject({
      problems: [files[1]!, files[2]!].map((file) => ({ problem: expect.stringContaining(file) as string })),
    });
  });

  it('that ends half way says what is back with exit code 1, and goes on when it is run again', async () => {
    await install.source.query(`create function public.no_third() returns trigger language plpgsql as $$ begin
        if (select count(*) = 3 from corrections._archive where restored_at is not null) then raise 'no third'; end if; return null; end $$;
      create trigger zz_no_third after update on corrections._archive for each statement execute function public.no_third()`);
    const ended = await cli.run(['archive', 'restore', manifest()]);
    expect(ended.code).toBe(1);
    for (const text of [`orders: 20 rows of ${files[1]!}`, `1 not, from ${files[2]!} on: no third`])
      expect(ended.stderr).toContain(text);
    expect(await readLog(install, 'orders')).toHaveLength(40);
    expect(await found()).toEqual({});
    await install.source.query(`drop trigger zz_no_third on corrections._archive`);
    expect((await restoreArchive(install.config, [manifest()])).files).toHaveLength(1);
    expect(await readLog(install, 'orders')).toHaveLength(50);
  }, 60_000);

  it('brings files back whose manifest is lost, from a folder, wherever it was moved to', async () => {
    rmSync(manifest());
    const elsewhere = join(createFolder(), 'moved');
    renameSync(folder, elsewhere);
    onTestFinished(() => rmSync(elsewhere, { recursive: true }));
    expect(await found([elsewhere])).toEqual({});
    expect((await restoreArchive(install.config, [elsewhere])).files).toHaveLength(3);
    expect(await readLog(install, 'orders')).toHaveLength(50);
  });

  it('finds again in a manifest what was in the one that was lost, once something is archived there', async () => {
    const read = () => JSON.parse(readFileSync(manifest(), 'utf8')) as { files: unknown[] };
    const before = read();
    rmSync(manifest());
    await order(51, 60);
    await install.wait();
    await move();
    const { files: listed, ...head } = read();
    expect({ ...head, files: listed.slice(0, 3) }).toEqual(before);
    expect(listed).toHaveLength(4);
    expect((await restoreArchive(install.config, [manifest()])).files).toHaveLength(4);
  });

  it('and archive: a lost manifest is not written again over a damaged file, and nothing is moved', async () => {
    rmSync(manifest());
    flip(files[1]!);
    await order(51, 60);
    await install.wait();
    await expect(move()).rejects.toThrow(files[1]!);
    expect(await readLog(install, 'orders')).toHaveLength(10);
  });

  it('and archive refuse a manifest that is damaged, and say what is wrong with it', async () => {
    await order(51, 51);
    await install.wait();
    for (const [text, wrong] of [
      ['null', 'it is null'],
      ['', 'JSON'],
      ['[]', 'it is a list'],
      ['{"format": "emend archive 2"}', 'its format is emend archive 2'],
      ['{"format": "emend archive 1", "install": "a"}', 'it has no target'],
      ['{"format": "emend archive 1", "install": "a", "target": "orders"}', 'it has no list of files'],
      [
        '{"format": "emend archive 1", "install": "a", "target": "orders", "files": [null]}',
        'files[0] has no',
      ],
    ] as const) {
      writeFileSync(manifest(), text);
      const refusal = { code: 'archive_unreadable', message: expect.stringContaining(wrong) as string };
      await expect(restoreArchive(install.config, [manifest()])).rejects.toMatchObject(refusal);
      await expect(move()).rejects.toMatchObject(refusal);
      expect(await readLog(install, 'orders')).toHaveLength(1);
    }
  });

  it('and archive show in their help what they take', async () => {
    const { stdout } = await cli.run(['archive', '--help']);
    for (const text of ['restore', '--before <date>', '--to <folder>', '--all'])
      expect(stdout).toContain(text);
  });
});
