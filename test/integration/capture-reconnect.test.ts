import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { planPublication } from '../../src/capture/publication.ts';
import type { EmendError } from '../../src/errors.ts';
import { accepted, createSource, startReader, streaming } from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually, holds } from '../support/eventually.ts';

test('a walsender killed again and again under load loses no row', async () => {
  const source = await createSource((await createDatabases('capture kill')).sourceUrl);
  const reader = startReader(source, { beforeAccept: () => sleep(2) });
  await streaming(reader);
  const written: string[] = [];
  for (let round = 0; round < 60; round += 1) {
    written.push(...(await source.insert(1 + (round % 7) * 40)));
    if (round % 12 === 5) {
      await source.db.query(
        'select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active_pid is not null',
        [source.slot],
      );
    }
  }
  await accepted(reader, written);
  expect(reader.capture.status().lastError?.code).toBe('source_unavailable');
  await streaming(reader);
});

test('a rolled back transaction never appears', async () => {
  const source = await createSource((await createDatabases('capture rollback')).sourceUrl);
  const reader = startReader(source);
  await streaming(reader);
  await source.db.query('begin');
  await source.insert(100);
  await source.db.query('savepoint deeper');
  await source.insert(100);
  await source.db.query('rollback');
  await source.db.query('begin');
  const kept = await source.insert(2);
  await source.db.query('savepoint undone');
  await source.insert(3);
  await source.db.query('rollback to savepoint undone');
  await source.db.query('commit');
  await accepted(reader, kept);
  expect(reader.ids()).toEqual(kept);
});

test('a second reader waits and takes over within 10 s after the first one is gone', async () => {
  const source = await createSource((await createDatabases('capture two')).sourceUrl);
  const first = startReader(source);
  await streaming(first);
  const second = startReader(source);
  await eventually(() => expect(second.capture.status().state).toBe('waiting_for_slot'));
  expect(second.capture.status().lastError?.code).toBe('slot_in_use');
  const before = await source.insert(10);
  await accepted(first, before);
  expect(second.ids()).toEqual([]);
  expect(second.warnings).toHaveLength(1); // not one a try

  await first.capture.stop();
  const after = await source.insert(10);
  await accepted(second, after, 10_000);
  expect(second.ids()).toEqual(after); // what the first one confirmed does not come again
});

test('a server that falls silent is noticed, and rows come after it', async () => {
  const source = await createSource((await createDatabases('capture silent')).sourceUrl);
  // a server is waited for at least half of its own timeout
  await source.db.query(
    `do $$ begin execute format('alter database %I set wal_sender_timeout = 1000', current_database()); end $$`,
  );
  const reader = startReader(source, { liveness: { pingAfterMs: 200, deadAfterMs: 800 } });
  await streaming(reader);
  const { pid } = await source.slotRow();
  await holds(async () => expect((await source.slotRow()).pid).toBe(pid), { forMs: 1_500 }); // idle is not silent
  process.kill(pid!, 'SIGSTOP');
  try {
    await eventually(() => expect(reader.warnings.join()).toMatch(/has sent nothing for/));
  } finally {
    process.kill(pid!, 'SIGCONT');
  }
  await accepted(reader, await source.insert(3));
});

test('a slot that is dropped under a reader is made again, and the sweep is asked', async () => {
  const source = await createSource((await createDatabases('capture dropped')).sourceUrl);
  let asked = 0;
  const reader = startReader(source, { passedOver: async () => (asked += 1) });
  await streaming(reader);
  expect(asked).toBe(1);
  await eventually(async () => {
    const { pid } = await source.slotRow();
    await source.db.query('select pg_terminate_backend($1)', [pid]);
    await source.db.query('select pg_drop_replication_slot($1)', [source.slot]);
  });
  await eventually(() => expect(asked).toBe(2));
  await streaming(reader);
  await accepted(reader, await source.insert(2));
});

test('a missing publication stops the reader before it makes a slot', async () => {
  const source = await createSource((await createDatabases('capture unpublished')).sourceUrl);
  await source.db.query(`drop publication "${source.publication}"`);
  const reader = startReader(source);
  await expect(reader.running).rejects.toMatchObject({ code: 'publication_missing', disposition: 'manual' });
  await expect(source.slotRow()).rejects.toThrow('no slot');
});

test('a publication dropped while streaming stops the reader, and putting it right as told recovers', async () => {
  const source = await createSource((await createDatabases('capture unpublish')).sourceUrl);
  const reader = startReader(source);
  await streaming(reader);
  await source.db.query(`drop publication "${source.publication}"`);
  await source.insert(1);
  await expect(reader.running).rejects.toMatchObject({ code: 'publication_missing' });
  const { remedy } = (await reader.running.catch((error: EmendError) => error)) as EmendError;

  const plan = await planPublication(source.db, { publication: source.publication, targets: ['prices'] });
  for (const { sql } of plan) await source.db.query(sql);
  const drop = /\((select pg_drop_replication_slot\('\w+'\))\)/.exec(remedy)?.[1];
  if (drop !== undefined) await source.db.query(drop);
  const next = startReader(source);
  await streaming(next);
  await accepted(next, await source.insert(2));
});

test('rows that committed while the publication was gone do not stop the reader for ever', async () => {
  const source = await createSource((await createDatabases('capture gap')).sourceUrl);
  const first = startReader(source);
  await streaming(first);
  await accepted(first, await source.insert(1));
  await first.capture.stop();
  await source.db.query(`drop publication "${source.publication}"`);
  const unpublished = await source.insert(1);
  const plan = await planPublication(source.db, { publication: source.publication, targets: ['prices'] });
  for (const { sql } of plan) await source.db.query(sql);

  let toldOfGap = false;
  const next = startReader(source, { passedOver: async () => (toldOfGap = true) });
  const { rows } = await source.db.query<{ version: number }>(
    `select current_setting('server_version_num')::int as version`,
  );
  if (rows[0]!.version < 180_000) {
    await expect(next.running).rejects.toMatchObject({
      code: 'publication_missing',
      remedy: expect.stringContaining(`pg_drop_replication_slot('${source.slot}')`),
    });
    return;
  }
  await accepted(next, await source.insert(2));
  expect(next.ids()).not.toContain(unpublished[0]);
  await eventually(() => expect(toldOfGap).toBe(true));
});

test('stopping does not wait for a source that does not answer', async () => {
  const source = await createSource((await createDatabases('capture deaf')).sourceUrl);
  const deaf = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void deaf.close());
  await once(deaf, 'listening');
  const { port } = deaf.address() as AddressInfo;
  const reader = startReader(source, { url: `postgres://u:p@127.0.0.1:${port}/d` });
  await once(deaf, 'connection');
  const start = performance.now();
  await reader.capture.stop();
  await reader.running;
  expect(performance.now() - start).toBeLessThan(2_000);
});

test('a wrong password is refused at the start', async () => {
  const source = await createSource((await createDatabases('capture password')).sourceUrl);
  const url = new URL(source.url);
  url.password = 'wrong';
  const reader = startReader(source, { url: url.href });
  await expect(reader.running).rejects.toMatchObject({ code: 'permission_missing', disposition: 'refuse' });
  expect(reader.warnings.join()).not.toContain('wrong');
});
