import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { withClient } from '../../src/db/transaction.ts';
import { correct } from '../../src/log/append.ts';
import { planRoles, roleNames, roleNotes } from '../../src/log/roles.ts';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import { createDatabases } from '../support/databases.ts';
import type { Databases } from '../support/databases.ts';
import { apply, createSource } from '../support/source.ts';
import type { SourceUnderTest } from '../support/source.ts';

const install = randomBytes(4).toString('hex');
const { writer, reader } = roleNames(install);
const config = defineConfig({ targets: { orders: facts('public.orders', { key: ['id'] }) } });

describe('roles of an install', () => {
  let databases: Databases;
  let db: SourceUnderTest;
  beforeAll(async () => {
    databases = await createDatabases('log roles');
    db = await createSource(
      databases,
      `create schema app; create type app.color as enum ('red');
       create table public.orders (id integer not null, amount numeric not null, color app.color)`,
      [{ name: 'orders', kind: 'facts', key: ['id'] }],
    );
    await withClient(db.source, async (client) => {
      await apply(client, await planRoles(client, install, db.targets));
    });
    return async () => {
      await db.source.end();
      await db.store.end();
      await databases.drop();
      const admin = new pg.Client({ connectionString: inject('postgresUrl') });
      await admin.connect();
      for (const role of [writer, reader, `${writer}_small`])
        await admin.query(`drop role if exists ${role}`);
      await admin.end();
    };
  });

  const as = (role: string, sql: string) =>
    withClient(db.source, async (client) => {
      await client.query(`set role ${role}`);
      try {
        return (await client.query<Record<string, string>>(sql)).rows;
      } finally {
        await client.query('reset role');
      }
    });

  test('are planned once, and leave nothing to be told', async () => {
    await withClient(db.source, async (client) => {
      expect(await planRoles(client, install, db.targets)).toEqual([]);
      expect(await roleNotes(client, install)).toEqual([]);
    });
  });

  test('a writer writes what it states, and learns the ids', async () => {
    const rows = await as(
      writer,
      `insert into corrections.orders (id, amount, color, _op, _reason) values (1, 2, 'red', 'upsert', 'why')
       returning (_id is not null)::text as has_id`,
    );
    expect(rows).toEqual([{ has_id: 'true' }]);
    await as(writer, `insert into corrections.orders (id, _op) values (1, 'retract')`);
  });

  test('a writer writes through correct(), with a search_path of its own', async () => {
    const client = new pg.Client({ connectionString: databases.sourceUrl });
    await client.connect();
    await client.query(`set role ${writer}`);
    const ids = await correct(client, config.targets.orders, { id: 5, amount: '1', color: 'red' });
    expect(ids).toHaveLength(1);
    await client.end();
  });

  test('a writer adds to an open backfill without rights on it, and not to a closed one', async () => {
    await db.source.query(`insert into corrections._backfill (name, targets) values ('b', '{orders}')`);
    const insert = `insert into corrections.orders (id, amount, _backfill) values (3, 3, 'b')`;
    await as(writer, insert);
    await db.source.query(`update corrections._backfill set closed_at = now()`);
    await expect(as(writer, insert)).rejects.toThrow('was closed at');
  });

  test.each(['_id', '_xid', '_nonce', '_recorded_at', '_actor'])(
    'a writer cannot state %s',
    async (column) => {
      const insert = `insert into corrections.orders (id, amount, ${column}) values (1, 2, default)`;
      await expect(as(writer, insert)).rejects.toMatchObject({ code: '42501' });
    },
  );

  test.each([
    'select * from corrections.orders',
    `select setval('corrections._id', 1)`,
    'delete from corrections.orders',
    'truncate corrections.orders',
    `update corrections._backfill set closed_at = null`,
    `insert into corrections._request (backfill, request) values ('b', 'promote')`,
    'alter table corrections.orders disable trigger all',
  ])('a writer may not: %s', async (sql) => {
    await expect(as(writer, sql)).rejects.toMatchObject({ code: '42501' });
  });

  test('a writer opens, fills, seals and promotes a backfill, and is on record for it; a reader may not', async () => {
    const open = `select corrections.open_backfill('mine', '{orders}', 'why', 'v1')`;
    await expect(as(reader, open)).rejects.toMatchObject({ code: '42501' });
    await as(writer, open);
    await as(writer, `insert into corrections.orders (id, amount, _backfill) values (4, 4, 'mine')`);
    await as(writer, `select corrections.chunk_backfill('mine', 'orders')`);
    await as(writer, `select corrections.seal_backfill('mine')`);
    await as(writer, `select corrections.promote_backfill('mine')`);
    await as(writer, `select corrections.revert_backfill('mine', 'wrong')`);
    const { rows } = await db.source.query(
      `select distinct _actor from corrections._request where backfill = 'mine'
       union all select actor from corrections._backfill where name = 'mine'`,
    );
    expect(rows).toEqual([{ _actor: writer }, { _actor: writer }]);
    await expect(as(writer, `select corrections._ask('mine', 'promote', null)`)).rejects.toMatchObject({
      code: '42501',
    });
  });

  test('a reader reads logs and control tables, and writes nothing', async () => {
    for (const table of ['orders', '_backfill', '_request', '_backfill_state', '_install', '_migration']) {
      await as(reader, `select count(*) from corrections.${table}`);
    }
    await expect(
      as(reader, 'insert into corrections.orders (id, amount) values (1, 1)'),
    ).rejects.toMatchObject({ code: '42501' });
  });

  test('a reader with a login streams changes', async () => {
    await db.source.query(`alter role ${reader} login`);
    const { rows } = await db.source.query<{ rolreplication: string }>(
      `select rolreplication from pg_roles where rolname = $1`,
      [reader],
    );
    expect(rows[0]?.rolreplication).toBe('t');
  });

  test('whoever may not create roles is told what to have run, and nothing fails', async () => {
    const other = 'ffffffff';
    await db.source.query(`create role ${writer}_small`);
    await withClient(db.source, async (client) => {
      await client.query(`set role ${writer}_small`);
      expect(await planRoles(client, other, db.targets)).toEqual([]);
      const notes = (await roleNotes(client, other)).join('\n');
      expect(notes).toContain('create role emend_writer_ffffffff nologin');
      expect(notes).toContain('alter role "emend_reader_ffffffff" replication');
      await client.query('reset role');
    });
  });
});
