import { expect, it } from 'vitest';
import { createPool } from '../../src/db/pool.ts';
import { inOneTrip } from '../../src/db/transaction.ts';
import { createDatabases } from '../support/databases.ts';

const { storeUrl } = await createDatabases('one trip');

/** One connection: whatever a trip leaves behind, the next one meets. */
async function openPipelined() {
  const pool = createPool({ url: storeUrl, applicationName: 'emend test trips', max: 1, pipeline: true });
  await pool.query(`drop table if exists public.noted`);
  await pool.query(`create table public.noted (id integer primary key deferrable initially deferred)`);
  const noted = async (): Promise<number[]> => {
    const { rows } = await pool.query<{ id: string }>(`select id from public.noted order by id`);
    return rows.map(({ id }) => Number(id));
  };
  const note = (id: number) => ({ text: `insert into public.noted values ($1::int)`, values: [id] });
  return { pool, noted, note };
}

it('statements of one trip are committed together', async () => {
  const { pool, noted, note } = await openPipelined();
  await inOneTrip(pool, (client) => [client.query(note(1)), client.query(note(2))]);
  expect(await noted()).toEqual([1, 2]);
  await pool.end();
});

it('each statement of a trip sees what was committed before it, and not before the trip', async () => {
  const { pool, note } = await openPipelined();
  const other = createPool({ url: storeUrl, applicationName: 'emend test others', max: 1 });
  const holder = await other.connect();
  await holder.query('select pg_advisory_lock(1)');
  const seen: Promise<string[]>[] = [];
  const trip = inOneTrip(pool, (client) => {
    const waits = client.query('select pg_advisory_xact_lock(1)');
    const rows = client.query<{ id: string }>('select id from public.noted');
    seen.push(rows.then((answer) => answer.rows.map(({ id }) => id)));
    return [waits, rows];
  });
  await holder.query(note(7));
  await holder.query('select pg_advisory_unlock(1)');
  await trip;
  expect(await seen[0]).toEqual(['7']);
  holder.release();
  await Promise.all([pool.end(), other.end()]);
});

it('a statement that fails takes the others with it, is the one that is told, and leaves a usable session', async () => {
  const { pool, noted, note } = await openPipelined();
  const trip = inOneTrip(pool, (client) => [
    client.query(note(1)),
    client.query('select 1 / 0'),
    client.query(note(2)),
  ]);
  await expect(trip).rejects.toMatchObject({ code: '22012' });
  expect(await noted()).toEqual([]);
  await inOneTrip(pool, (client) => [client.query(note(3))]);
  expect(await noted()).toEqual([3]);
  await pool.end();
});

it('what is refused at the commit is told', async () => {
  const { pool, noted, note } = await openPipelined();
  const trip = inOneTrip(pool, (client) => [client.query(note(1)), client.query(note(1))]);
  await expect(trip).rejects.toMatchObject({ code: '23505' });
  expect(await noted()).toEqual([]);
  await pool.end();
});

it('a session that is lost on the way fails the trip, and the next one gets another session', async () => {
  const { pool, noted, note } = await openPipelined();
  const trip = inOneTrip(pool, (client) => [
    client.query(note(1)),
    client.query('select pg_terminate_backend(pg_backend_pid())'),
    client.query(note(2)),
  ]);
  await expect(trip).rejects.toMatchObject({ code: '57P01' });
  expect(await noted()).toEqual([]);
  await inOneTrip(pool, (client) => [client.query(note(3))]);
  expect(await noted()).toEqual([3]);
  await pool.end();
});
