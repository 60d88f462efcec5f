import { once } from 'node:events';
import { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import pg from 'pg';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { restoreArchive } from '../../src/pipeline/restore-archive.ts';
import { createFolder, ddl, found, move, order, readLog, targets, well } from '../support/archive.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

async function untilIn({ store }: Install, backfill: string, state: string): Promise<void> {
  await eventually(async () => {
    const { rows } = await store.query(`select state, problem from emend.backfill where name = $1`, [
      backfill,
    ]);
    expect(rows).toEqual([{ state, problem: null }]);
  });
}

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
    const before = new Date().toISOString();
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
