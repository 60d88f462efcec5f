import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { restoreArchive } from '../../src/pipeline/restore-archive.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { sweepNow } from '../../src/pipeline/sweep-now.ts';
import { undo } from '../../src/pipeline/undo.ts';
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
import { createSweep } from '../support/sweep.ts';

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
